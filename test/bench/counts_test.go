package bench

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/test/traffic"
)

// A speed is meaningful only if the counts are right: every rule matches as
// many lines as a reference that tries one plain expression per rule on each
// line.
func TestCountsAreThoseOfThePlainReference(t *testing.T) {
	require.Equal(t, matcher.MaxLine, traffic.MaxLine)
	f := func(kind traffic.Kind, size int, sets ...int) {
		t.Helper()
		largest := workload{kind, sets[len(sets)-1]}.signatures()
		log := traffic.Bytes(size, traffic.Options{Kind: kind, Match: 0.2, Near: 0.2, Rules: len(largest), Seed: 3})
		want := traffic.Count(log, largest)
		require.Greater(t, len(want.Joined), 1)
		for _, n := range sets {
			w := workload{kind, n}
			among := named(want.Joined, w.signatures())
			require.Equal(t, among, scanned(w, log, blockSize), "%s", w)
			require.Equal(t, among, scanned(w, log, 700), "%s in small blocks", w)
			require.Equal(t, among, replayed(t, w, log), "%s by replay", w)
		}
	}
	for _, kind := range []traffic.Kind{traffic.Mix, traffic.CRI, traffic.Storm, traffic.JSON} {
		f(kind, 1e6/slow, 10)
		f(kind, 2e5/slow, 10, 100)
		f(kind, 5e4/slow, 10, 100, 1000)
	}
	f(traffic.Published, 2e5/slow, 500)
}

// named returns only the counts of these rules.
func named(counts map[string]int64, of []traffic.Rule) map[string]int64 {
	out := map[string]int64{}
	for _, r := range of {
		if n := counts[r.Name]; n > 0 {
			out[r.Name] = n
		}
	}
	return out
}

// scanned counts with the matcher alone.
func scanned(w workload, log []byte, block int) map[string]int64 {
	out := map[string]int64{}
	p, s := programOf(w).program, newStream(w.kind)
	count := func(hits []matcher.Hit) {
		for _, h := range hits {
			out[h.Rule.Alert]++
		}
	}
	for _, b := range blocks(log, block) {
		count(p.Scan(s, b, arrival))
	}
	count(p.Flush(s, arrival))
	return out
}

// replayed counts the output of `crowsnest scan --hits`.
func replayed(t *testing.T, w workload, log []byte) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	l := programOf(w)
	in := replay.Input{Name: "x", Labels: pod, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}
	_, err := replay.Scan(l.set, l.program, []replay.Input{in}, replay.ScanOptions{
		Now: arrival, OnHits: func(_ string, hits []matcher.Hit) {
			for i := range hits {
				out[hits[i].Rule.Alert]++
			}
		},
	})
	require.NoError(t, err)
	return out
}
