package rules

import (
	"embed"
	"io/fs"
)

//go:embed packs
var packs embed.FS

// Shipped returns the packs that are built into the program.
func Shipped() fs.FS {
	sub, err := fs.Sub(packs, "packs")
	if err != nil {
		// The name is a constant and valid.
		return packs
	}
	return sub
}
