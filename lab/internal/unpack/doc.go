// Package unpack unpacks archives that people collect, such as support bundles, into a
// folder: tar, zip, and gzip, xz, zstd and bzip2 around them, one in another.
//
// An archive may be hostile. Nothing is written outside of the folder, links and special
// files are not made, and the size, the number and the depth of what is unpacked are
// bounded. Memory does not grow with the archive, except for the table of contents of a
// zip archive, which has a bound of its own. An archive in an archive is unpacked after the
// outer one, so that the windows of their decompressors are not in memory together.
package unpack

import "slices"

// Limits bound what is unpacked from one archive with all archives in it.
type Limits struct {
	Bytes   int64 // total size of all files
	Ratio   int64 // highest ratio of unpacked to packed bytes, once RatioFrom bytes were unpacked
	Entries int   // files and folders
	Depth   int   // archives in archives
	Names   int   // bytes of all names
	// RatioFrom is how many bytes an archive may have unpacked before Ratio counts: small
	// files of one line, repeated, are ordinary.
	RatioFrom int64
}

// Default returns the limits for bundles: the largest seen in public issues have a few
// GiB, and logs are packed to a thirtieth at best.
func Default() Limits {
	return Limits{Bytes: 16 << 30, Ratio: 400, RatioFrom: 256 << 20, Entries: 200_000, Depth: 5, Names: 32 << 20}
}

// Problem is an entry, or an archive in the archive, that was not unpacked or not
// completely.
type Problem struct {
	Path   string // below the folder, "." for the archive itself; printable and bounded
	Reason string
	// Lost means that lines may be missing. Links and special files have none.
	Lost bool
}

// Result is what was unpacked.
type Result struct {
	Files    int
	Bytes    int64 // written, with those of the archives in the archive
	Problems []Problem
	// Refused means that a limit was exceeded. The beginning may have been unpacked and is
	// not worth reading: hundreds of thousands of files, or gigabytes of nothing.
	Refused bool
}

// Complete reports whether nothing that may contain lines is missing.
func (r Result) Complete() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Lost })
}
