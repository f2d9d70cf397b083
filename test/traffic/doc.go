// Package traffic makes input for measuring and for comparing log matchers:
// lines as controllers in a Kubernetes cluster write them, rules that some of
// these lines match, the same rules in the languages of other programs, and a
// plain reference that counts which rule matches how many lines.
//
// The same arguments give the same bytes, on every machine. The package uses
// only the standard library and nothing of crowsnest, so that what it says can
// be held against it.
package traffic

// Version names the bytes: it changes when any output of the package does.
const Version = "1"
