// Package objects writes the state of Kubernetes objects, and Events, as lines, so that
// rules can match what no log contains, wait for it, and be ended by it. It needs list and
// watch of the configured kinds, reads only what the lines contain, and never the kind
// Secret.
//
// # Objects
//
// A line is written when a state is first seen, whenever it changes, and again every
// interval while it holds. Its time is when the state was proved to hold; since when it
// holds is the field since, and age is the time between. The label component of a stream
// names the view, and namespace is that of the object; objects outside of namespaces have
// none. These texts do not change; NAMES stands for
// resource=RESOURCE.GROUP kind=KIND object=NAMESPACE/NAME name=NAME, which pods follow by
// pod=NAME and nodes by node=NAME:
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
// Machine that is being deleted counts as removed, unless it still has its node. The line
// "no machine belongs to these nodes" states that the API server manages clusters of which
// none is its own; no other line is then about their nodes.
//
// A field without a value is "". The field was is present only if the value changed since
// the last line about it. A value with other characters than letters is quoted, and a
// quote inside is escaped, so that no text of a tenant contains msg=" or forges a field.
//
// A Lease is stale when its renewTime did not change for its duration while the API
// server answered and the watch delivered everything. No clock of a holder is compared.
// While the API server cannot be reached, nobody can renew a Lease: no line is written,
// and the time of the outage does not count. A Lease that was seen once is neither held
// nor stale until one of both is proved.
//
// Conditions are those of status.v1beta2.conditions, status.conditions and
// status.deprecated.v1beta1.conditions; if a type is in several, the first counts.
//
// If pods are read, the source knows the images of their containers; see sources.Images.
//
// The watermark is the time up to which everything about all kinds was read. A kind that
// the API server does not have is looked for every minute and holds nothing up. If it had
// objects, it has to be missing for three minutes until they are gone: an API server that
// starts does not have all kinds yet. A kind that may not be read takes the source down.
//
// The saved positions contain what was written about each object, except for pods that
// run without restarts: a restart repeats no change, and reports once what was removed
// meanwhile.
//
// # Events
//
// There is one line for each Event and one for each rise of its count:
//
//	component="events"
//	msg="event" type=TYPE reason=REASON kind=KIND object=NAMESPACE/NAME name=NAME uid=UID reporter=REPORTER count=COUNT message=TEXT
//
// type, reason and message are those of the Event; kind, object, name and uid name the
// object that it is about, and object has no namespace if the Event states none. Events
// about Pods and Nodes have pod=NAME or node=NAME behind name. reporter is the controller
// that wrote the Event. All fields are there, also empty ones. A message longer than 4 KiB
// and any other value longer than 256 bytes are truncated and end with an ellipsis.
//
// The label namespace is the namespace of the Event. The API server takes an Event from
// whoever may create Events in its namespace, with any namespace of the object. So the
// object is only what the Event claims, and rules with `origin: infrastructure` trust the
// namespace.
//
// The time of a line is that of the newest occurrence. A time in the future becomes that
// of reading, because the clocks that write Events may be wrong, or lie.
//
// The position is the version up to which everything was read, with the counts of the
// newest 8,192 Events. After a restart the watch continues there. If the API server no
// longer knows that version (410), a list has what came later, because the version of an
// Event is that of its last change. So nothing is repeated, and nothing is lost that the
// API server still has, which is an hour by default. Without a position, Events of the
// look-back are read. An Event that is edited without a rise of its count, and is not one
// of the newest, is written again with the same line and time, which the engine
// recognizes.
package objects
