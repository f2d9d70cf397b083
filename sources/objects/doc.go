// Package objects writes the state of Kubernetes objects, and Events, as lines. No log contains such a state. A rule
// can match it, wait for it, or be cleared by it. docs/objects.md and docs/events.md describe the lines. The package
// needs list and watch of the configured kinds. It reads only what the lines contain, and never the kind Secret.
//
// # Objects
//
// A line is written when a state is first seen, whenever it changes, and again every interval while the state holds.
// The time of a line is the time at which the state was proved to hold. The label component of a stream names the kind
// of information in its lines, which is called a view. The label namespace is the namespace of the object, and is
// absent for objects without a namespace. A value that contains anything but letters is quoted, and quotes inside it
// are escaped. Text of a tenant can therefore not contain msg=" or forge a field.
//
// A Lease is stale if its renewTime did not change for its duration while the API server answered and the watch
// delivered everything. The clocks of holders are not used. While the API server cannot be reached, nobody can renew a
// Lease. No line is written then, and this time does not count. A Lease that was seen only once counts as neither held
// nor stale until a later response shows which.
//
// With Machines, a comparison of Nodes with Machines writes lines every interval. The removal of an object is reported
// once, and only if it had no counterpart before. A Machine that is being deleted counts as removed, unless it still
// has its node. The line "no machine belongs to these nodes" means that no Machine on the API server belongs to the API
// server's own cluster. No other line is then written about the Nodes of its own cluster.
//
// The watermark is the time up to which everything about all kinds was read. A kind that the API server does not have
// is looked for every minute, and does not hold the watermark back. If the kind had objects, the objects count as gone
// when the kind has been missing for three minutes, because an API server that starts does not have all kinds yet. A
// kind that may not be read takes the source down.
//
// The saved positions contain the states that were written about each object, except about
// pods that run without restarts. After a restart, no change is therefore written again, and
// an object that was removed in the meantime is reported once.
//
// # Events
//
// There is one line for each Event and one for each rise of its count. The label namespace is the namespace of the
// Event. Any user who may create Events in a namespace can claim there that they are about an object in any namespace.
// Therefore rules with `origin: infrastructure` trust the namespace and not the object. The time of a line is the time
// of the newest occurrence. A time in the future is replaced by the time of reading, because a writer of Events may
// have a wrong clock, or may lie.
//
// The position is the version up to which everything was read, with the counts of the newest 8,192 Events. After a
// restart the watch continues from this version. If the API server no longer knows the version (410), the source lists
// the Events and skips older ones by their own versions. Therefore no Event is written twice, and none is lost that the
// API server still has. By default it keeps Events for an hour. Without a position, Events of the look-back period are
// read. An old Event that is edited without a rise of its count may be written again. The line and its time are then
// the same, which the engine recognizes.
package objects
