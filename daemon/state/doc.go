// Package state keeps the files that contain the daemon's state. They are the snapshot, which has the read positions
// and the episodes of the same moment, and logs of records, such as the history.
//
// The package handles bytes and files, and does not interpret their content. A save replaces the snapshot and never
// modifies it in place. The previous generation is kept, and both have a checksum. Therefore a crash, a full disk or a
// damaged block costs at most one generation. Load accepts any content of the directory. It sets unusable files aside
// and reports them, so that the daemon can start. A Log grows at its end and has a checksum for each record. The cost
// of appending depends only on the new records, and damage costs only the damaged records.
package state
