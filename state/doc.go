// Package state keeps the daemon's single snapshot file: positions and episodes of the
// same moment.
//
// It handles bytes and files, not their content. A save replaces the snapshot and
// never modifies it in place. The previous generation is kept, and both have a
// checksum, so that a crash, a full disk or a damaged block costs at most one
// generation. Load accepts any content of the directory: it quarantines and reports
// unusable files, and the daemon starts.
package state
