// Package journal reads the files of systemd-journald on a node. These are the active and
// archived files of the system and of users, in /var/log/journal and /run/log/journal.
//
// The labels of a stream are node, unit, identifier, transport and job (always "systemd-journal"). The text is MESSAGE,
// which may have several lines. The other fields of an entry are fields of the line.
//
// journald assigns each entry to a sequence and gives it a number there. The sequence's ID and the number identify the
// entry. They survive rotation, renaming and vacuum. Each file is read from its first unread entry, so nothing is read
// twice. If a number is still missing after all files were read, journald has deleted the entry before it was read.
package journal
