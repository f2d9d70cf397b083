// Package kubernetes follows the logs of pods through the Kubernetes API. It serves clusters where the nodes' files
// cannot be read. It needs only get, list and watch of pods, and get of pods/log.
//
// The labels of a line come from the API's description of the pod, never from the line itself.
//
// The end of a log response does not show why it ended. A container's exit, a kubelet's restart and a broken connection
// between API server and kubelet look the same. The source therefore requests the log again, from shortly before the
// newest line. It stops when the pod's status says that the container has terminated and a later request has read the
// log to its end. It remembers the lines of the last few seconds with their times and counts, and drops repeated ones.
// After a restart of a container, the source first reads the rest of the previous instance. The API keeps only one
// previous instance, so the lines of older instances are counted as lost. Lines that a node rotated away twice while
// the source was disconnected are also lost, and no client can detect that. Reading the nodes' files avoids both kinds
// of losses.
package kubernetes
