package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

const placesPack = `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Lease
  from: '{container="kcm"}'
  match: {regex: 'lost lease (?P<lease>\S+)'}
  clear: {regex: 'won lease (?P<lease>\S+)'}
  for: 1m
  by: [lease]
  severity: critical
- alert: Space
  from: '{container="kcm"}'
  match: "failed here"
  clear: "works here"
  for: 1m
  by: [namespace]
  severity: critical
- alert: Node
  from: '{container="kubelet"}'
  match: "node failed"
  clear: "node works"
  for: 1m
  by: [node]
  severity: critical
- alert: Often
  from: '{container="kcm"}'
  match: {regex: 'refused volume (?P<volume>\S+)'}
  count: 3
  within: 5m
  by: [volume]
  severity: warning
`

// A failure in files of unknown places is one if its lines name all of it. Otherwise each file has its own,
// and a recovery in another file is said where it may be that of the failure.
func TestFilesOfUnknownPlaces(t *testing.T) {
	set, prog := compile(t, placesPack)
	type file struct {
		name  string
		lines []string
	}
	f := func(want []string, files ...file) {
		t.Helper()
		var inputs []Input
		for _, x := range files {
			in := logOf(x.name, x.lines...)
			in.Labels = matcher.Labels{FileLabel: x.name}
			inputs = append(inputs, in)
		}
		report, err := Scan(set, prog, inputs, ScanOptions{Lenient: true, Findings: true, Now: time.Now()})
		require.NoError(t, err)
		var got []string
		for _, a := range report.Alerts {
			got = append(got, fmt.Sprintf("%s %s %s %d: %s", a.Episode.State, a.Episode.Alert, a.Episode.Labels[FileLabel], a.Episode.Count, a.Assumes))
		}
		for _, x := range report.Findings {
			got = append(got, fmt.Sprintf("%s %s %s: %s", x.Doubt, x.Episode.Alert, x.Episode.Labels[FileLabel], x.Missing))
		}
		require.Equal(t, want, got)
	}
	const perhaps = "a line of b at 2026-01-01T10:00:30Z ends it, unless that log is of another place"

	// The lines name the failure.
	f([]string{"recovered Lease : recovered after 30 seconds"},
		file{"a", []string{cri(0, "error: lost lease x"), cri(200, "other")}}, file{"b", []string{cri(1, "other"), cri(30, "won lease x")}})
	f([]string{"firing Lease  1: "},
		file{"a", []string{cri(0, "error: lost lease x"), cri(200, "other")}}, file{"b", []string{cri(1, "other"), cri(30, "won lease y")}})
	f([]string{"firing Often  3: "},
		file{"a", []string{cri(0, "refused volume v"), cri(20, "refused volume v")}}, file{"b", []string{cri(10, "refused volume v")}})

	// The namespace is not known: logs of several processes may be of one.
	f([]string{"elsewhere Space a: perhaps over: " + perhaps},
		file{"a", []string{cri(0, "failed here"), cri(200, "other")}}, file{"b", []string{cri(1, "other"), cri(30, "works here")}})
	f([]string{"firing Space a 1: that it is not over: a line of b at 2026-01-01T10:03:00Z ends it, unless that log is of another place"},
		file{"a", []string{cri(0, "failed here"), cri(200, "other")}}, file{"b", []string{cri(1, "other"), cri(180, "works here")}})
	f([]string{"firing Space a 2: "},
		file{"a", []string{cri(0, "failed here"), cri(40, "failed here"), cri(200, "other")}}, file{"b", []string{cri(30, "works here")}})

	// The node is not known: logs that are of the same time are of several nodes.
	f([]string{"firing Node a 1: ", "firing Node c 1: ", "recovered Node b: recovered after 25 seconds"},
		file{"a", []string{cri(0, "node failed"), cri(200, "other")}},
		file{"b", []string{cri(5, "node failed"), cri(30, "node works"), cri(200, "other")}},
		file{"c", []string{cri(7, "node failed"), cri(200, "other")}})
	f([]string{"elsewhere Node a: perhaps over: " + perhaps},
		file{"a", []string{cri(0, "node failed"), cri(7, "other")}}, file{"b", []string{cri(20, "begins"), cri(30, "node works"), cri(200, "other")}})
}
