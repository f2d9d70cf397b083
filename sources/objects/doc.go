// Package objects writes the state of Kubernetes objects, and Events, as lines. Rules can match
// such a state, which no log contains, wait for it, and be cleared by it. It needs list and
// watch of the configured kinds. It reads only what the lines contain, and never the kind
// Secret.
//
// # Objects
//
// A line is written when a state is first seen, whenever it changes, and again every interval
// while it holds. The time of a line is the time at which the state was proved to hold. The
// field since is the time since which it holds, and age is the difference. The label component
// of a stream is the name of the view, and namespace is that of the object. Objects outside of
// namespaces have no label namespace. The following texts do not change. NAMES stands for
// resource=RESOURCE.GROUP kind=KIND object=NAMESPACE/NAME name=NAME, followed by pod=NAME for
// pods and node=NAME for nodes:
//
//	component="leases"
//	msg="lease is held" NAMES duration=15s renewed=TIME unchanged=2s transitions=3 holder=HOLDER [was=HOLDER]
//	msg="lease is stale" ...
//	msg="lease has no holder" ...
//	msg="lease is gone" NAMES was=HOLDER
//
//	component="conditions"
//	msg="condition" type=TYPE status=STATUS NAMES reason=REASON since=TIME age=2m0s [was=STATUS] message="..."
//	msg="condition is gone" type=TYPE NAMES was=STATUS
//
//	component="deleting"
//	msg="object is being deleted" NAMES since=TIME age=2m0s [was=FINALIZERS] finalizers=A,B
//	msg="object is gone" NAMES
//
//	component="phases"
//	msg="phase" phase=PHASE reason=REASON NAMES since=TIME age=2m0s [was=PHASE] message="..."
//	msg="phase is gone" NAMES was=PHASE
//	msg="container is waiting" reason=REASON container=NAME NAMES restarts=5 exit=137 exit_reason=OOMKilled since=TIME age=2m0s [was=STATE] message="..."
//	msg="container is running" ...
//	msg="container is terminated" ...
//	msg="container is gone" container=NAME NAMES was=STATE
//
// With Machines, a comparison of Nodes with Machines writes these lines every interval:
//
//	component="machines"
//	msg="node has no machine" node=NODE
//	msg="node has a machine" node=NODE machine=NAMESPACE/NAME cluster=NAMESPACE/NAME
//	msg="node is gone" node=NODE
//	msg="machine has no node" machine=NAMESPACE/NAME cluster=NAMESPACE/NAME phase=PHASE
//	msg="machine is gone" machine=NAMESPACE/NAME
//	msg="nodes and machines agree" nodes=4 machines=4
//	msg="nodes and machines differ" nodes=4 machines=3 nodes_without_machine=1 machines_without_node=0
//	msg="no machine belongs to these nodes" nodes=4 machines=7
//	msg="node is claimed by other machines" node=NODE machines=2 first=NAMESPACE/NAME
//
// The removal of an object is reported once, and only if it had no counterpart before. A
// Machine that is being deleted counts as removed, unless it still has its node. The line "no
// machine belongs to these nodes" states that the API server manages clusters, but not its own.
// No other line is then written about the nodes of that cluster.
//
// A field without a value is "". The field was is present only if the value changed since the
// last line. A value that contains anything but letters is quoted, and quotes inside it are
// escaped. Text of a tenant can therefore not contain msg=" or forge a field.
//
// A Lease is stale if its renewTime did not change for its duration while the API server
// answered and the watch delivered everything. The clocks of holders are not used. While the
// API server cannot be reached, nobody can renew a Lease. No line is written then, and this
// time does not count. A Lease that was seen only once is neither held nor stale until one of
// the two is proved.
//
// Conditions are those of status.v1beta2.conditions, status.conditions and
// status.deprecated.v1beta1.conditions. If several of these have the same type, the first one
// counts.
//
// If pods are read, the source knows the images of their containers (see sources.Images).
//
// The watermark is the time up to which everything about all kinds was read. A kind that the
// API server does not have is looked for every minute, and does not hold the watermark back. If
// the kind had objects, they count as gone when it has been missing for three minutes, because
// an API server that starts does not have all kinds yet. A kind that may not be read takes the
// source down.
//
// The saved positions contain what was written about each object, except pods that run without
// restarts. After a restart, no change is therefore repeated, and what was removed in the
// meantime is reported once.
//
// # Events
//
// There is one line for each Event and one for each rise of its count:
//
//	component="events"
//	msg="event" type=TYPE reason=REASON kind=KIND object=NAMESPACE/NAME name=NAME uid=UID reporter=REPORTER count=COUNT message=TEXT
//
// type, reason and message are those of the Event. kind, object, name and uid name the object
// that it is about. object has no namespace if the Event states none. Events about Pods and
// Nodes have pod=NAME or node=NAME behind name. reporter is the controller that wrote the
// Event. All fields are present, even if they are empty. A message longer than 4 KiB, and any
// other value longer than 256 bytes, is truncated and ends with an ellipsis.
//
// The label namespace is the namespace of the Event. Any user who may create Events in a
// namespace can claim there that they are about an object in any namespace. Therefore rules
// with `origin: infrastructure` trust the namespace and not the object.
//
// The time of a line is that of the newest occurrence. A time in the future is replaced by the
// time of reading, because the clocks that write Events may be wrong, and writers may lie.
//
// The position is the version up to which everything was read, with the counts of the newest
// 8,192 Events. After a restart the watch continues from this version. If the API server no
// longer knows the version (410), the source lists the Events and skips older ones by their own
// versions. Nothing is therefore repeated, and nothing is lost that the API server still has,
// which it keeps for an hour by default. Without a position, Events of the look-back period are
// read. An old Event that is edited without a rise of its count may be written again. The line
// and its time are then the same, which the engine recognizes.
package objects
