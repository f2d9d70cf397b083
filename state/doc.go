// Package state keeps the daemon's one snapshot file: positions and episodes of
// the same moment.
//
// It knows bytes and files, not what is in them. A snapshot is replaced, never
// changed in place, the generation before is kept, and both carry a checksum,
// so that a crash, a full disk or a damaged block costs at most one generation.
// Loading accepts any content of the directory: what is unusable is set aside
// and reported, and the daemon starts.
package state
