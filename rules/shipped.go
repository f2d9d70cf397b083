package rules

import (
	"embed"
	"io/fs"
)

//go:embed packs
var packs embed.FS

// Shipped returns the packs that are built into the program.
func Shipped() fs.FS {
	sub, _ := fs.Sub(packs, "packs") // the name is valid
	return sub
}
