package matcher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// FuzzJoin: parts of stdout and stderr in any mixture are joined to the same lines as by a
// model, however the bytes are split into blocks.
func FuzzJoin(f *testing.F) {
	f.Add([]byte("Pa\x01Fb\x02"), uint16(3))
	f.Add([]byte{0, 5, 128, 7, 1, 9, 129, 3, 0, 0, 1, 1}, uint16(1))
	f.Add(bytes.Repeat([]byte{0, 255}, 300), uint16(7)) // beyond MaxMerged
	f.Add(append(bytes.Repeat([]byte{2, 255}, 20), 3, 1, 0, 1, 1, 1), uint16(5))
	f.Add([]byte{1, 0, 3, 0, 0, 0, 1, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, ops []byte, seed uint16) {
		r := ruleOf(t, "All", rules.Matcher{Contains: []string{"x"}})
		prog := compile(t, r)
		s := NewStream(manager, StreamOptions{Format: FormatCRI})
		var m joinModel
		var block, got []string
		take := func() {
			for _, h := range prog.Scan(s, []byte(strings.Join(block, "")), arrival) {
				got = append(got, h.Line)
			}
			block = block[:0]
		}
		for i := 0; i+1 < len(ops) && i < 800; i += 2 {
			full, stderr := ops[i]&1 != 0, ops[i]&2 != 0
			size := int(ops[i+1])
			if ops[i]&128 != 0 {
				size *= 80 // some parts are as long as containerd's
			}
			text := strings.Repeat("x", size)
			stream, tag := "stdout", "P"
			if stderr {
				stream = "stderr"
			}
			if full {
				tag = "F"
			}
			block = append(block, fmt.Sprintf("2025-11-20T10:00:00.%09dZ %s %s %s\n", i, stream, tag, text))
			m.part(stream, text, full)
			if seed != 0 && (i/2)%int(seed%7+1) == 0 {
				take()
			}
		}
		take()
		for _, h := range prog.Flush(s, arrival) {
			got = append(got, h.Line)
		}
		m.flush()
		require.Equal(t, m.lines, got)
		c := s.Counters()
		require.Equal(t, m.dropped, c.Dropped)
		require.Equal(t, c.Lines, c.Evaluated+c.Dropped, "every line is accounted for")
	})
}

// joinModel joins parts in the simplest way.
type joinModel struct {
	open [2]struct {
		text     string
		parts    int
		skipping bool
		since    int
	}
	n       int
	lines   []string
	dropped int64
}

func (m *joinModel) part(stream, text string, full bool) {
	o := &m.open[0]
	if stream == "stderr" {
		o = &m.open[1]
	}
	m.n++
	if o.skipping {
		m.dropped++
		o.skipping = !full
		return
	}
	if o.parts == 0 {
		o.since = m.n
	}
	o.text += text
	o.parts++
	if full || len(o.text) >= maxMerged {
		m.line(o.text)
		o.text, o.parts, o.skipping = "", 0, !full
	}
}

func (m *joinModel) line(text string) {
	if text != "" { // the rule wants an x
		m.lines = append(m.lines, text[:min(len(text), MaxLine)])
	}
}

func (m *joinModel) flush() {
	first, second := &m.open[0], &m.open[1]
	if second.since < first.since {
		first, second = second, first
	}
	for _, o := range []*struct {
		text     string
		parts    int
		skipping bool
		since    int
	}{first, second} {
		if o.parts > 0 {
			m.line(o.text)
		}
	}
}

// FuzzTextFields: klog, klogr and logfmt are read as by the plain reader, and a value
// contains only text of the line.
func FuzzTextFields(f *testing.F) {
	for _, s := range []string{
		`E0310 12:00:00.000000       1 x.go:1] "Failed to \"do\" it" err="can't be empty" Cluster="default/c2" n=3 ok=true`,
		`E0101 1 c.go:1] controllers/X "msg"="Reconciler error" "error"="a=b c=d" "reconciler group"="g" "n"=1`,
		`time="2025-11-20T10:00:00Z" level=info msg="found \"3\" nodes" empty= q=""`,
		"E0101 x.go:1] \"m\" err=<\n\tfirst\n\t\tsecond\n >  k=\"v\"", `5" disk a=b`, `x="a b=c`, `a="x",b="y";c=z`, `a=<nil> b=<x`, `k="\u003c\x41\U0001F600\q"`,
		`=x ==y "="=z`, "a=\"b\nc=\"d", `msg="E0101 x.go:1] \"forged\" namespace=\"kube-system\""`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.HasPrefix(strings.TrimSpace(line), "{") || len(line) > 2048 {
			return // JSON has a target of its own
		}
		var got lines.Fields
		got.Reset([]byte(line))
		want := refText(line)
		seen := map[string]bool{}
		for name := range got.All() {
			seen[name] = true
			value, ok := got.Lookup(name)
			require.True(t, ok)
			require.Equal(t, want[name], string(value), "%q of %q", name, line)
		}
		for name := range want {
			require.True(t, seen[name], "%q is missing of %q", name, line)
		}
	})
}
