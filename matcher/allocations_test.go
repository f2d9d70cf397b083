//go:build !race

package matcher

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// The race detector lets sync.Pool drop values, so allocations can be counted only without
// it. make test runs this package without it.

// TestNoAllocations scans lines that no rule matches.
func TestNoAllocations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
	p := compileTimed(t, ruleOf(t, "A", rules.Matcher{Contains: []string{"leaderelection lost"}}),
		ruleOf(t, "B", rules.Matcher{Contains: []string{"Reconciling"}, Fields: []rules.Field{{Name: "Cluster", Value: "no/such"}}}, "Cluster"),
		ruleOf(t, "C", rules.Matcher{Fields: []rules.Field{{Name: "err", Value: "lost connection"}}}),
		ruleOf(t, "D", rules.Matcher{Contains: []string{"ab"}}))
	klog := `I1120 10:00:00.002415       1 cluster_controller.go:59] "Reconciling Cluster" name="prod-us-1" err="a \"b\""`
	obj := `{"ts":1763632800.1,"msg":"Reconciling \"x\"","Cluster":{"namespace":"no","name":"such\u0020"},"err":"\u006cost"}`
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	for name, block := range map[string]string{
		"CRI":             "2025-11-20T10:00:00.123456789Z stdout F " + klog + "\n2025-11-20T10:00:00.123456789Z stderr F " + obj + "\n",
		"CRI in parts":    "2025-11-20T10:00:00.123456789Z stdout P " + klog + "\n2025-11-20T10:00:00.12Z stdout F " + obj + "\n",
		"Docker":          `{"log":"` + quoted(klog) + `\n","stream":"stdout","time":"2025-11-20T10:00:00.1Z"}` + "\n" + `{"log":"` + quoted(obj) + `\n","stream":"stdout","time":"2025-11-20T10:00:00.1Z"}` + "\n",
		"Docker, unusual": `{"stream":"stdout","log":"` + quoted(klog) + `\n","time":"2025-11-20T10:00:00.1Z"}` + "\n",
		"text":            klog + "\n" + obj + "\n\n\r\nplain text\x00\n" + `time="2025-11-20T10:00:00Z" level=info msg="x"`,
	} {
		for _, textTime := range []bool{false, true} {
			s := NewStream(manager, StreamOptions{TextTime: textTime})
			b := []byte(block)
			n := testing.AllocsPerRun(200, func() {
				if len(p.Scan(s, b, arrival)) > 0 {
					t.Error("a rule matches")
				}
			})
			require.Zero(t, n, name)
		}
	}
	s := NewStream(manager, StreamOptions{})
	rec := Record{Time: arrival, Text: []byte(klog)}
	require.Zero(t, testing.AllocsPerRun(200, func() { p.Match(s, rec) }))
}
