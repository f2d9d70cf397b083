// Package kubernetes follows the logs of pods through the Kubernetes API, for
// clusters where the nodes' files cannot be read. It needs only get, list and watch
// of pods, and get of pods/log.
//
// The labels of a line come from what the API says about the pod, never from the
// line itself.
//
// The end of a log response means nothing: a container's exit, a kubelet's restart
// and a broken connection between API server and kubelet look the same. The source
// therefore requests the log again, from shortly before the newest line, until the
// pod's status says that the container has terminated and a later request has read
// the log to its end. It remembers the lines of the last few seconds by time and
// text, with their counts, and drops the repeated ones. After a restart of a
// container, the source first reads the rest of the previous instance. The API keeps
// only one; lines of older instances are counted as lost. Lines that a node rotated
// away twice during a disconnect are lost too, and no client can detect that. The
// nodes' files have neither gap.
package kubernetes
