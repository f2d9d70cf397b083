// Package kubernetes follows the logs of pods through the Kubernetes API, for
// places where the files of the nodes cannot be read. It asks only for pods and
// their logs: get, list and watch of pods, and get of pods/log.
//
// What a line belongs to is what the API says of the pod, never what the line
// says.
//
// A log that ends tells nothing: a container's exit, a kubelet's restart and a
// cut between the API server and the kubelet look the same. So it is asked for
// again, a little before the newest line, until the pod's status says that the
// container has ended and its log was read to the end after that. Lines of the
// last seconds are remembered by time and text, each as often as it was there;
// what was there before is left out. When a container has restarted, the rest of
// the instance before is read first. The API keeps only one: what was in others
// is counted as lost, and so is what a node rotated away twice while nobody was
// connected, which no client can see. The files of the nodes have neither hole.
package kubernetes
