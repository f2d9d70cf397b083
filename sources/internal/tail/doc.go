// Package tail reads log files that are rotated, compressed, truncated, renamed
// and deleted while they are written.
//
// A stream is everything that is written to one log over time: the rotated files in
// ascending order, compressed or not, then the current file, and after a restart of
// the container the next one. One follower reads one stream from its oldest unread
// byte on, through all of these files, and feeds one matcher.Stream.
//
// A file is identified by its content: a hash of its head and of the bytes before
// the position. Inode numbers decide only while a descriptor keeps the inode from
// being reused. So the same search finds a position after a start, after a
// rotation, and after a file was compressed, copied and truncated, or renamed back.
//
// Polling is authoritative; the kernel's notifications only make it happen sooner.
// The package knows files and bytes. It does not know the content of a line, except
// the time in the envelope of a file's first one.
package tail
