// Package traffic generates input to measure and compare log matchers: lines as
// controllers in a Kubernetes cluster write them, rules that match some of
// these lines, the same rules in the languages of other programs, and a plain
// reference that counts how many lines each rule matches.
//
// The same arguments produce the same bytes on every machine. The package uses
// only the standard library and nothing of crowsnest, so that it can serve as a
// reference.
package traffic

// Version identifies the bytes: it changes when any output of the package
// changes.
const Version = "1"
