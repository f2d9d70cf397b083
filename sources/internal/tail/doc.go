// Package tail reads log files that are rotated, compressed, truncated, renamed
// and deleted while they are written.
//
// A stream is everything that is written to one log over time: the rotated
// files in ascending order, compressed or not, then the file that is written to
// now, and after a restart of the container the next one. One chain reads one
// stream from its oldest unread byte on, through all of these files, and feeds
// one matcher.Stream.
//
// A file is known by its content: a hash of its head and of the bytes before
// the position. Inode numbers decide only while a descriptor keeps the inode
// from being used again. So the same search answers every question of place:
// after a start, after a rotation, when a file was compressed, copied and
// truncated, or renamed back.
//
// Looking at the files on a clock is the truth; the kernel's notifications only
// make it look sooner. The package knows files and bytes. It does not know what
// is in a line, but for the time in the envelope of the first one of a file.
package tail
