package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/importer"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// A CRE and the rule that it becomes agree, on random logs, whether they fire. The model says what a
// CRE means; it knows neither rules nor episodes.
func TestImportedCREsMeanTheSame(t *testing.T) {
	fired, runs := 0, 150
	if os.Getenv("CROWSNEST_CHAOS") != "" {
		runs = 5000
	}
	for seed := range uint64(runs) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		m := randomCRE(rnd)
		log := randomLog(rnd)
		// A line that is read while the alert waits for late lines mutes it.
		late := m
		late.length += 10_000
		least, most := late.fires(log), m.fires(log)
		got := importedFires(t, m.yaml(), log)
		if got {
			fired++
		}
		require.True(t, got || !least, "seed %d: it does not fire\n%s\n%s", seed, m.yaml(), logText(log))
		require.True(t, most || !got, "seed %d: it fires\n%s\n%s", seed, m.yaml(), logText(log))
	}
	require.Greater(t, fired, runs/10)
	require.Less(t, fired, runs*9/10)
}

// event is a line of a log: a kind of line, at a time in ms.
type event struct {
	at   int
	kind byte // n is that of negate
}

// modelCRE is a CRE over kinds of lines.
type modelCRE struct {
	ordered bool
	kinds   []byte // repeated for a count
	window  int    // ms
	negate  string // "", between, after or around
	slide   int    // ms, of around
	length  int    // ms, of after and around
}

func randomCRE(rnd *rand.Rand) modelCRE {
	m := modelCRE{ordered: rnd.IntN(2) == 0, window: 1000 * (1 + rnd.IntN(20))}
	kinds := 1 + rnd.IntN(3)
	for k := range kinds {
		n := 1
		if m.ordered || kinds == 1 {
			n += rnd.IntN(2)
		}
		m.kinds = append(m.kinds, slices.Repeat([]byte{byte('a' + k)}, n)...)
	}
	m.negate = []string{"", "between", "after", "around"}[rnd.IntN(4)]
	if m.negate == "around" && len(m.kinds) > 1 || m.negate == "between" && len(m.kinds) == 1 {
		m.negate = "after"
	}
	m.slide, m.length = -1000*rnd.IntN(8), 1000*(1+rnd.IntN(8))
	if m.negate == "around" && m.slide+m.length < 0 {
		m.length = -m.slide
	}
	return m
}

func randomLog(rnd *rand.Rand) []event {
	var log []event
	at := 0
	for range 4 + rnd.IntN(12) {
		at += 1 + rnd.IntN(9000)
		if at%1000 == 0 {
			at++ // no time is exactly as far from another one as a window
		}
		log = append(log, event{at, "aabbccnx"[rnd.IntN(8)]})
	}
	return log
}

func (m *modelCRE) yaml() string {
	counts := map[byte]int{}
	for _, k := range m.kinds {
		counts[k]++
	}
	var terms []string
	for _, k := range slices.Compact(slices.Clone(m.kinds)) {
		terms = append(terms, fmt.Sprintf("{value: kind %c, count: %d}", k, counts[k]))
	}
	condition, name := "set", "match"
	if m.ordered && len(m.kinds) > 1 {
		condition, name = "sequence", "order"
	}
	window := ""
	if len(m.kinds) > 1 {
		window = fmt.Sprintf("window: %dms, ", m.window)
	}
	negate := map[string]string{
		"":        "",
		"between": ", negate: [kind n]",
		"after":   fmt.Sprintf(", negate: [{value: kind n, anchor: %d, window: %dms, absolute: true}]", len(m.kinds)-1, m.length),
		"around":  fmt.Sprintf(", negate: [{value: kind n, slide: %dms, window: %dms}]", m.slide, m.length),
	}[m.negate]
	return fmt.Sprintf("rules:\n- cre: {id: M-1, severity: 1, title: A model}\n  rule: {%s: {%sevent: {source: cre.log.relay}, %s: [%s]%s}}\n",
		condition, window, name, strings.Join(terms, ", "), negate)
}

// fires tries every choice of lines.
func (m *modelCRE) fires(log []event) bool {
	var choose func(chosen []event) bool
	choose = func(chosen []event) bool {
		if len(chosen) == len(m.kinds) {
			return m.complete(log, chosen)
		}
		for _, e := range log {
			next := e.kind == m.kinds[len(chosen)] && !slices.Contains(chosen, e)
			if next && m.ordered && len(chosen) > 0 && e.at < chosen[len(chosen)-1].at {
				next = false
			}
			if next && choose(append(slices.Clone(chosen), e)) {
				return true
			}
		}
		return false
	}
	return choose(nil)
}

// complete reports whether chosen lines are within the window, and no line of negate forbids them.
func (m *modelCRE) complete(log, chosen []event) bool {
	first, last := chosen[0].at, chosen[0].at
	for _, e := range chosen {
		first, last = min(first, e.at), max(last, e.at)
	}
	if last-first >= m.window && len(chosen) > 1 {
		return false
	}
	from, to := first, last
	switch m.negate {
	case "":
		return true
	case "after":
		from, to = last, last+m.length
	case "around":
		from, to = first+m.slide, first+m.slide+m.length
	}
	return !slices.ContainsFunc(log, func(e event) bool { return e.kind == 'n' && from <= e.at && e.at <= to })
}

func logText(log []event) string {
	start := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var b strings.Builder
	for _, e := range log {
		fmt.Fprintf(&b, "%s kind %c\n", start.Add(time.Duration(e.at)*time.Millisecond).Format("2006-01-02T15:04:05.000Z07:00"), e.kind)
	}
	return b.String()
}

func importedFires(t *testing.T, cre string, log []event) bool {
	t.Helper()
	r, err := importer.Import([]importer.File{{Name: "m.yaml", Data: []byte(cre)}}, importer.Options{Pack: "m"})
	require.NoError(t, err)
	require.Len(t, r.Packs, 1, "%v\n%s", r.Outcomes, cre)
	set := importedSet(t, r)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	in := replay.Input{Name: "m.log", Labels: matcher.Labels{"namespace": "shop", "container": "relay"}, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(logText(log))), nil
	}}
	report, err := replay.Scan(set, prog, []replay.Input{in}, replay.ScanOptions{Now: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)})
	require.NoError(t, err)
	return len(report.Alerts) > 0
}
