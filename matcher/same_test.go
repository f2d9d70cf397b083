package matcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/rules"
	"crowsnest/rules/selector"
)

func sameProgram(t require.TestingT) *Program {
	from, err := selector.Parse(`{app="a"}`)
	require.NoError(t, err)
	p, err := Compile(&rules.Set{Rules: []*rules.Rule{{
		Alert: "A", From: from, Mode: rules.ModeOn, Steps: []rules.Step{{From: from, Matcher: rules.Matcher{Contains: []string{"bad"}}}},
	}}})
	require.NoError(t, err)
	return p
}

// criLog writes lines "bad N" in groups that share one time.
func criLog(groups [][]int) string {
	var b strings.Builder
	for i, g := range groups {
		for _, n := range g {
			fmt.Fprintf(&b, "2026-01-01T00:00:%02d.5Z stderr F bad %d\n", i, n)
		}
	}
	return b.String()
}

func idsOf(hits []Hit) (out []uint64) {
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}

// Equal lines with one time are told apart by their position, in any blocks and when
// speculating. Lines that are read again from a boundary between two times have the same
// IDs. A source without positions gives all of them one ID.
func TestEqualLinesOfOneTime(t *testing.T) {
	p := sameProgram(t)
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 2), 1, 8), 1, 6).Draw(t, "groups")
		log, offset := criLog(groups), int64(rapid.IntRange(0, 1000).Draw(t, "offset"))
		labels := Labels{"app": "a"}
		whole := NewStream(labels, StreamOptions{})
		whole.SetOffset(offset)
		want := idsOf(p.Scan(whole, []byte(log), time.Now()))
		unique := map[uint64]bool{}
		for _, id := range want {
			require.False(t, unique[id])
			unique[id] = true
		}
		require.Len(t, want, strings.Count(log, "\n"))

		lines := strings.SplitAfter(log, "\n")
		lines = lines[:len(lines)-1]
		cut := rapid.IntRange(0, len(lines)).Draw(t, "cut")
		head, tail := strings.Join(lines[:cut], ""), strings.Join(lines[cut:], "")

		blocks := NewStream(labels, StreamOptions{})
		blocks.SetOffset(offset)
		got := idsOf(p.Scan(blocks, []byte(head), time.Now()))
		blocks.SetOffset(offset + int64(len(head)))
		got = append(got, idsOf(p.Scan(blocks, []byte(tail), time.Now()))...)
		require.Equal(t, want, got)

		ahead := NewStream(labels, StreamOptions{})
		ahead.SetOffset(offset)
		got = idsOf(p.Scan(ahead, []byte(head), time.Now()))
		a := ahead.Speculate(0, 0)
		further := idsOf(p.Scan(a, []byte(tail), time.Now()))
		if !ahead.Commit(a) {
			further = idsOf(p.Scan(ahead, []byte(tail), time.Now()))
		}
		require.Equal(t, want, append(got, further...))

		// A kill: another stream reads on from before some time.
		from := rapid.IntRange(0, len(groups)-1).Draw(t, "read again from")
		before := criLog(groups[:from])
		again := NewStream(labels, StreamOptions{})
		again.SetOffset(offset + int64(len(before)))
		require.Equal(t, want[strings.Count(before, "\n"):], idsOf(p.Scan(again, []byte(log[len(before):]), time.Now())))

		// The same stream reads the last line again, as if its end had been missing.
		last := lines[len(lines)-1]
		whole.SetOffset(offset + int64(len(log)-len(last)))
		require.Equal(t, want[len(want)-1:], idsOf(p.Scan(whole, []byte(last), time.Now())))

		plain := NewStream(labels, StreamOptions{})
		for i, id := range idsOf(p.Scan(plain, []byte(log), time.Now())) {
			require.Contains(t, want, id, i)
		}
	})
}

// A log that is rewritten in place counts as a new one: its lines get the IDs of a new log.
func TestEqualLinesOfARewrittenLog(t *testing.T) {
	p := sameProgram(t)
	s := NewStream(Labels{"app": "a"}, StreamOptions{})
	log := []byte(criLog([][]int{{1, 1, 1}}))
	s.SetOffset(5000)
	first := idsOf(p.Scan(s, log, time.Now()))
	s.SetOffset(0)
	require.Equal(t, first, idsOf(p.Scan(s, log, time.Now())))
}
