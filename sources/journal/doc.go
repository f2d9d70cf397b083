// Package journal reads the files of systemd-journald on a node: those of the system and
// of users, in /var/log/journal and /run/log/journal, active and archived.
//
// The labels of a stream are node, unit, identifier, transport and job (always
// "systemd-journal"); the other fields of an entry are fields of the line. The line is
// MESSAGE, which may have several lines.
//
// An entry is identified as journald does it: by the ID of its sequence and its number
// in it. Both survive rotation, renaming and vacuum. Each file is read from its first
// unread entry, so that nothing is read twice, and the numbers that are missing in the
// end are the entries that no file has any more.
package journal
