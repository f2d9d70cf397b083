package matcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

func TestTimeOf(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		got, ok := TimeOf([]byte(line), arrival)
		require.Equal(t, want != "", ok)
		if ok {
			require.Equal(t, want, got.Format(time.RFC3339Nano))
		}
	}
	f("2025-11-20T10:00:00.5Z stdout F I1119 09:00:00.0 1 a.go:1] a", "2025-11-20T10:00:00.5Z")
	f(`{"log":"x\n","stream":"stdout","time":"2025-11-20T10:00:00.5Z"}`, "2025-11-20T10:00:00.5Z")
	f("I1119 09:00:00.0 1 a.go:1] a", "2025-11-19T09:00:00Z")
	f("x", "")
}

// Times are read only for hits. They are the same as if the time of every line were read.
func TestTextTimeIsThatOfEveryLine(t *testing.T) {
	p := compile(t, ruleOf(t, "A", rules.Matcher{In: rules.InAnywhere, Contains: []string{"boom"}}))
	forms := []string{
		"I1120 10:00:%02d.5 1 a.go:1] x", `{"ts":17636328%02d.25,"msg":"x"}`, "2025-11-20T10:00:%02dZ\tx", `msg=x time="2025-11-20T10:00:%02d.125Z"`,
		"\tat a.b(%02d)", "I1320 10:00:%02d.5 1 a.go:1] no such month", "2025-11-20T10:00:%02d.75Z stdout F I1119 09:00:00.0 1 a.go:1] x",
		`{"log":"x\n","stream":"stdout","time":"2025-11-20T10:00:%02d.0625Z"}`, "%02d\x00", "",
	}
	rapid.Check(t, func(t *rapid.T) {
		var blocks []string
		var want, got []Hit
		var last time.Time
		block := ""
		for i := range rapid.IntRange(1, 40).Draw(t, "lines") {
			text := rapid.SampledFrom(forms).Draw(t, "line")
			if text != "" {
				text = fmt.Sprintf(text, i)
			}
			boom := text != "" && text[len(text)-1] != '}' && rapid.IntRange(0, 3).Draw(t, "boom") == 0
			if boom {
				text += " boom"
			}
			at, stated := TimeOf([]byte(strings.ReplaceAll(text, "\x00", "")), arrival)
			_, enveloped := lines.ReadCRI([]byte(text))
			switch {
			case stated:
				last = at
			case last.IsZero():
				at = arrival
			default:
				at = last
			}
			if boom {
				h := Hit{Time: at, TextTime: !enveloped && !last.IsZero(), LineNumber: int64(i + 1)}
				h.Line = strings.ReplaceAll(text, "\x00", "")
				if enveloped {
					_, h.Line, _ = strings.Cut(h.Line, " stdout F ")
				}
				r := run{s: NewStream(manager, StreamOptions{}), now: arrival}
				h.ID = r.lineFingerprint([]byte(h.Line), moment{number: h.LineNumber, time: at, own: stated})
				want = append(want, h)
			}
			if block += text + rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end"); rapid.IntRange(0, 5).Draw(t, "cut") == 0 {
				blocks, block = append(blocks, block), ""
			}
		}
		s := NewStream(manager, StreamOptions{TextTime: true})
		for _, h := range scanAll(p, s, append(blocks, block)) {
			got = append(got, Hit{Time: h.Time, TextTime: h.TextTime, LineNumber: h.LineNumber, Line: h.Line, ID: h.ID})
		}
		require.Equal(t, want, got)
		require.Equal(t, last, s.last)
	})
}

// An envelope with an invalid time leaves the previous time in force.
func TestTextTimeBeforeABrokenStamp(t *testing.T) {
	p := compile(t, ruleOf(t, "A", rules.Matcher{In: rules.InAnywhere, Contains: []string{"boom"}}))
	s := NewStream(manager, StreamOptions{TextTime: true})
	hits := p.Scan(s, []byte("I1120 10:00:05.0 1 a.go:1] x\n2025-02-30T10:00:00Z stdout F x\n\tboom\n"), arrival)
	require.Len(t, hits, 1)
	require.Equal(t, "2025-11-20T10:00:05Z", hits[0].Time.Format(time.RFC3339))
}
