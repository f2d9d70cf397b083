// Package events reads the Events of a cluster through the Kubernetes API and writes one
// line for each Event and one for each rise of its count, so that rules match them like
// lines of a log. It needs list and watch of events.events.k8s.io. The lines are:
//
//	msg="event" type=TYPE reason=REASON kind=KIND object=NAMESPACE/NAME name=NAME uid=UID reporter=REPORTER count=COUNT message=TEXT
//
// type, reason and message are those of the Event; kind, object, name and uid name the
// object that it is about, and object has no namespace if the Event states none. Events
// about Pods and Nodes have the name once more, as pod=NAME or node=NAME behind name.
// reporter is the controller that wrote the Event, and count how often it has occurred.
// All fields are there, also empty ones. Values are quoted where necessary; a message
// longer than 4 KiB and any other value longer than 256 bytes are truncated and end with an
// ellipsis. These texts do not change.
//
// The streams have the labels component="events" and namespace. The namespace is that of
// the Event. It is the namespace of the object, and default if the object has none: the
// API server enforces that for Events of the old form, but takes one of the new form from
// whoever may create Events in its namespace, with any namespace of the object. So the
// object is only what the Event claims, and the namespace is who may have written it;
// rules with `origin: infrastructure` trust the namespace.
//
// The time of a line is that of the newest occurrence. A time in the future becomes that
// of reading, because the clocks that write Events may be wrong, or lie.
//
// The position is the version up to which everything was read, with the counts of the
// newest Events. After a restart the watch continues there. If the API server no longer
// knows that version (410), a list has what came later: the version of an Event is that of
// its last change. So nothing is repeated, and nothing is lost that the API server still
// has, which is an hour by default; Events that are older than the position were read.
// Without a position, Events of the look-back are read. Counts are known for the newest
// 8,192 Events. An Event that is edited without a rise of its count, and is not one of
// them, is written again with the same line and time, which the engine recognizes.
package events
