// Package tail reads log files while they are written, rotated, compressed, truncated, renamed
// and deleted.
//
// A stream is everything that is written to one log over time. It consists of the rotated
// files from old to new, compressed or not, the current file, and after a restart of the
// container the next file. One follower reads one stream from its oldest unread byte through
// all of these files, and feeds one matcher.Stream.
//
// A file is identified by its content, through hashes of its first bytes (the head) and of the
// bytes before the position (the mark). Inode numbers count only while an open descriptor
// prevents their reuse. The same search therefore finds a position after a restart, after a
// rotation, and after a file was compressed, copied and truncated, or renamed back.
//
// Polling alone finds every change. Notifications of the kernel only make it faster. The
// package handles files and bytes. It does not know the content of lines, except the time that
// a container runtime writes before each line (the envelope).
package tail
