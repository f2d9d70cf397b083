package matcher

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/rules"
)

func TestTextTime(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		got := ""
		if at, ok := textTime([]byte(line), arrival); ok {
			got = at.Format(time.RFC3339Nano)
		}
		require.Equal(t, want, got, line)
	}
	// klog: the year is that of the reader's clock.
	f("I1120 10:00:00.123456       1 a.go:1] x", "2025-11-20T10:00:00.123456Z")
	f("E1121 12:00:00.000000 1 a.go:1] x", "2025-11-21T12:00:00Z")
	f("E1121 12:00:00.000001 1 a.go:1] x", "2024-11-21T12:00:00.000001Z")
	f("W0229 10:00:00.0 1 a.go:1] x", "2024-02-29T10:00:00Z")
	f("F1231 23:59:59.999999999 1 a.go:1] x", "2024-12-31T23:59:59.999999999Z")
	f("I1320 10:00:00.1 1 a.go:1] x", "")
	f("E0101 leaderelection.go:429] x", "")
	// JSON: klog in milliseconds, zap as a float or in ISO 8601, logrus, logstash.
	f(`{"ts":1763632800123.4567,"msg":"x"}`, "2025-11-20T10:00:00.1234567Z")
	f(`{"level":"info","ts":1763632800.123,"msg":"x"}`, "2025-11-20T10:00:00.123Z")
	f(`{"level":"info","ts":1.7636328e9}`, "2025-11-20T10:00:00Z")
	f(`{"ts":1763632800123456}`, "2025-11-20T10:00:00.123456Z")
	f(`{"ts":1763632800123456789}`, "2025-11-20T10:00:00.123456789Z")
	f(`{"ts":"2025-11-20T10:00:00.123+0100"}`, "2025-11-20T09:00:00.123Z")
	f(`{"a":{"ts":1},"b":["ts"],"time":"2025-11-20T10:00:00Z"}`, "2025-11-20T10:00:00Z")
	f(`{"time":"soon","@timestamp":"2025-11-20T10:00:00Z"}`, "2025-11-20T10:00:00Z")
	f(`  {"timestamp":"2025-11-20 10:00:00"}`, "2025-11-20T10:00:00Z")
	f(`{"ts":"x"}`, "")
	f(`{"ts":-5}`, "")
	f(`{"ts":0}`, "")
	f(`{"ts":1e400}`, "")
	// Stamps at the start.
	f("2025-11-20T10:00:00.123Z\tINFO\tx", "2025-11-20T10:00:00.123Z")
	f("2025-11-20T10:00:00+01:00 x", "2025-11-20T09:00:00Z")
	f("2025-11-20 10:00:00,123 x", "2025-11-20T10:00:00.123Z")
	f("2025/11/20 10:00:00 [INFO] x", "2025-11-20T10:00:00Z")
	f("[2025-11-20 10:00:00] x", "2025-11-20T10:00:00Z")
	f("2025-11-20 10:00:00", "2025-11-20T10:00:00Z")
	f("2025-11-20 10:00:00x", "")
	f("2025-11-31 10:00:00 x", "")
	f("2025-11-20 10:00:60 x", "2025-11-20T10:01:00Z")
	// syslog and journald.
	f("Nov 20 10:00:00 host kubelet[12]: x", "2025-11-20T10:00:00Z")
	f("Nov  2 10:00:00 host kubelet[12]: x", "2025-11-02T10:00:00Z")
	f("Dec 20 10:00:00 host kubelet[12]: x", "2024-12-20T10:00:00Z")
	f("Nox 20 10:00:00 host x", "")
	f("ovD 20 10:00:00 host x", "")
	// logfmt.
	f(`time="2025-11-20T10:00:00Z" level=info`, "2025-11-20T10:00:00Z")
	f(`level=info ts=2025-11-20T10:00:00.5Z msg=x`, "2025-11-20T10:00:00.5Z")
	f(`level=info ts=1763632800.25 msg=x`, "2025-11-20T10:00:00.25Z")
	f(`msg="ts=2025-11-20T10:00:00Z" starttime=2025-11-20T10:00:00Z`, "")
	f(`Waited time=5s then ts=2025-11-20T10:00:00Z`, "2025-11-20T10:00:00Z")
	f("", "")
	f("a line", "")
}

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

// FuzzStamp compares stamps with time.Parse.
func FuzzStamp(f *testing.F) {
	for _, s := range []string{"2025-11-20T10:00:00.123456789Z", "2025-11-20T10:00:00+01:30", "2024-02-29T23:59:60Z", "0000-01-01T00:00:00,1234567890123-24:00"} {
		f.Add(s)
	}
	whole := regexp.MustCompile(`^` + refStamp + `$`)
	f.Fuzz(func(t *testing.T, s string) {
		n, zoned := stampLen([]byte(s))
		require.Equal(t, whole.MatchString(s), zoned && n == len(s))
		if !zoned || n != len(s) {
			return
		}
		want, ok := refTime(s)
		got, gotOK := parseStamp([]byte(s))
		require.Equal(t, ok, gotOK)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

// Times are read where a hit asks for them. They are those that one gets who
// reads the time of every line.
func TestTextTimeIsThatOfEveryLine(t *testing.T) {
	p := compile(t, ruleOf(t, "A", rules.Matcher{Contains: []string{"boom"}}))
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
			_, enveloped := readCRI([]byte(text))
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
				h.ID = r.fingerprint(&line{str: h.Line, at: moment{number: h.LineNumber, time: at, own: stated}})
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

// An envelope whose stamp is no time leaves the time before it in force.
func TestTextTimeBeforeABrokenStamp(t *testing.T) {
	p := compile(t, ruleOf(t, "A", rules.Matcher{Contains: []string{"boom"}}))
	s := NewStream(manager, StreamOptions{TextTime: true})
	hits := p.Scan(s, []byte("I1120 10:00:05.0 1 a.go:1] x\n2025-02-30T10:00:00Z stdout F x\n\tboom\n"), arrival)
	require.Len(t, hits, 1)
	require.Equal(t, "2025-11-20T10:00:05Z", hits[0].Time.Format(time.RFC3339))
}
