// Package crowsnest holds data that is built into the program and belongs to no
// other package.
package crowsnest

import (
	"embed"
	"io/fs"
)

//go:embed testdata/incidents
var incidents embed.FS

// Incidents returns the recorded incidents, a folder each; their README says
// what is in them.
func Incidents() fs.FS {
	sub, err := fs.Sub(incidents, "testdata/incidents")
	if err != nil {
		// The name is a constant and valid.
		return incidents
	}
	return sub
}
