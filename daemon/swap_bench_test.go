package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
)

// BenchmarkSwap measures how long lines wait while 5,000 rules are put in force and 10,000
// alerts are open.
func BenchmarkSwap(b *testing.B) {
	sets := make([]*inforce.Rules, 2)
	for i := range sets {
		var text strings.Builder
		text.WriteString("pack: {name: swap, version: \"1.0.0\"}\nrules:\n")
		for n := range 5000 {
			fmt.Fprintf(&text, "- {alert: R%d, from: '{container=\"c\"}', match: {regex: 'failure %d of (?P<what>[a-z0-9]+)'}, by: [what], severity: info}\n", n, n)
		}
		docs, problems := loader.ParseFiles([]rules.File{{Name: "swap.yaml", Data: []byte(text.String())}})
		require.Empty(b, problems.Errors())
		set, problems := loader.BuildSet(docs, rules.Options{})
		require.Empty(b, problems.Errors())
		rs, err := inforce.New(set)
		require.NoError(b, err)
		sets[i] = rs
	}
	p := localPipeline(episodes.Config{MaxActive: 20000, MaxPerNamespace: 20000, MaxKeys: 20000}, time.Now)
	p.swapRules(sets[0])
	s := matcher.NewStream(matcher.Labels{"namespace": "n", "pod": "p", "container": "c"}, matcher.StreamOptions{})
	for n := range 10000 {
		(&sourcePipeline{pipeline: p}).Scan(s, fmt.Appendf(nil, "%s stderr F failure %d of k%d\n", time.Now().UTC().Format(time.RFC3339Nano), n%5000, n), func() {})
	}
	p.evaluate(func([]episodes.Episode) {})
	require.Equal(b, 10000, len(p.engine.Episodes(time.Now())))
	n := 0
	for b.Loop() {
		n++
		p.swapRules(sets[n%2])
		b.StopTimer()
		p.evaluate(func([]episodes.Episode) {})
		b.StartTimer()
	}
}
