// Package unpack unpacks archives that people collect, such as support bundles, into a
// folder: tar, zip, and gzip, xz, zstd and bzip2 around them, one in another.
//
// An archive may be hostile. Nothing is written outside of the folder, links and special
// files are not made, and the size, the number and the depth of what is unpacked are
// bounded. Memory does not grow with the archive, except for the table of contents of a
// zip archive, which the bound of entries limits.
package unpack

// Limits bound what is unpacked from one archive with all archives in it.
type Limits struct {
	Bytes   int64 // of all files
	Ratio   int64 // of unpacked to packed bytes, beyond RatioFrom
	Entries int   // files and folders
	Depth   int   // archives in archives
	// RatioFrom is how many bytes an archive may have unpacked before Ratio counts: small
	// files of one line, repeated, are ordinary.
	RatioFrom int64
}

// Default returns the limits for bundles: the largest seen in public issues have a few
// GiB, and logs are packed to a thirtieth at best.
func Default() Limits {
	return Limits{Bytes: 16 << 30, Ratio: 400, RatioFrom: 256 << 20, Entries: 200_000, Depth: 5}
}

// Skipped is an entry that was not unpacked although its archive is sound.
type Skipped struct {
	Path   string // below the folder
	Reason string
}

// Result is what was unpacked.
type Result struct {
	Files   int
	Bytes   int64
	Skipped []Skipped
}
