// Package state keeps the files of the daemon's state: the snapshot, which is positions and
// episodes of the same moment, and beside it logs of records, such as the history.
//
// It handles bytes and files, not their content. A save replaces the snapshot and
// never modifies it in place. The previous generation is kept, and both have a
// checksum, so that a crash, a full disk or a damaged block costs at most one
// generation. Load accepts any content of the directory: it quarantines and reports
// unusable files, and the daemon starts. A Log grows at its end, with a checksum for each
// record: it costs what is new, and damage costs the damaged records only.
package state
