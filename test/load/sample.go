package main

import (
	"bytes"
	"fmt"
	"strings"
)

// samplePack returns a pack of n rules that look at every line.
func samplePack(n int) string {
	var b strings.Builder
	b.WriteString("pack: {name: load, version: \"1.0.0\"}\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "- alert: Load%d\n  from: '{container=~\".+\"}'\n  match: {regex: 'failure number %d of (?P<what>[a-z]+)'}\n", i, i)
		b.WriteString("  by: [what]\n  severity: warning\n  annotations: {summary: s}\n  remediation: {summary: s, steps: [\"x\"]}\n")
	}
	return b.String()
}

// sampleLog returns about size bytes of CRI lines, few of which match a rule of
// samplePack.
func sampleLog(size int) []byte {
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "2026-01-02T03:04:%02d.%09dZ stderr F I0102 03:04:05.123456       1 controller.go:%d] \"Reconciled\" controller=\"machine\" object=\"ns-%d/worker-%d\" generation=%d took=\"%d.%dms\"\n",
			n/20000%60, n%1000000000, n%977, n%31, n%4093, n%53, n%97, n%10)
		if n%1000 == 999 {
			fmt.Fprintf(&b, "2026-01-02T03:04:%02d.%09dZ stderr F E0102 03:04:05.123456       1 controller.go:7] failure number %d of disks\n", n/20000%60, n%1000000000, n%100)
		}
	}
	return b.Bytes()
}
