package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
)

const day = "2026-11-20T16:00:0"

func TestLines(t *testing.T) {
	f := func(in, block string, strays int) {
		t.Helper()
		var l lines
		l.addBytes([]byte(in))
		require.Equal(t, block, string(l.block))
		require.Equal(t, strays, l.strays)
		require.Len(t, l.fresh, strings.Count(block, "\n"))
	}
	f("", "", 0)
	f(day+"0.123456789Z text\n", day+"0.123456789Z stdout F text\n", 0)
	f(day+"0.123456789Z  two  spaces \n", day+"0.123456789Z stdout F  two  spaces \n", 0)
	f(day+"0.1Z \n", day+"0.1Z stdout F \n", 0)
	f(day+"0.1Z\n", day+"0.1Z stdout F \n", 0)
	f(day+"0.1+01:00 zone\n", day+"0.1+01:00 stdout F zone\n", 0)
	f(day+"0.1Z half", "", 0)
	f("\n", "", 1)
	f("rpc error: code = NotFound\n", "", 1)
	f("2026-13-20T16:00:00Z no such month\n", "", 1)
	f(day+"0.1Z a\nunable to retrieve container logs\n"+day+"1.1Z b\n", day+"0.1Z stdout F a\n"+day+"1.1Z stdout F b\n", 1)
	f("1969-01-01T00:00:00Z before time\n", "", 1)
	f(strings.Repeat("9", 100<<10)+"\n", "", 1)
	f("\x00\xff\n", "", 1)
}

func TestLongLine(t *testing.T) {
	var l lines
	long := day + "0.1Z " + strings.Repeat("x", 1<<20) + "\n"
	for b := []byte(long); len(b) > 0; {
		n := min(len(b), 4096)
		l.addBytes(b[:n])
		b = b[n:]
		require.LessOrEqual(t, cap(l.rest), 2*keepLine)
	}
	l.addBytes([]byte(day + "1.1Z next\n"))
	got := strings.Split(string(l.block), "\n")
	require.Len(t, got, 3)
	require.Len(t, got[0], keepLine+len(cri)-1)
	require.Greater(t, len(got[0]), matcher.MaxLine)
	require.Equal(t, day+"1.1Z stdout F next", got[1])
	require.EqualValues(t, len(long)-1-keepLine, l.cut)
}

// TestAnySplit: the sizes of reads from the network do not matter.
func TestAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in bytes.Buffer
		for i := range rapid.IntRange(0, 30).Draw(t, "lines") {
			fmt.Fprintf(&in, "%s%d.%dZ %s\n", day, i%10, i, rapid.StringMatching(`[a-z ]{0,20}`).Draw(t, "text"))
		}
		var whole, split lines
		whole.addBytes(in.Bytes())
		for b := in.Bytes(); len(b) > 0; {
			n := rapid.IntRange(1, len(b)).Draw(t, "n")
			split.addBytes(b[:n])
			b = b[n:]
		}
		require.Equal(t, string(whole.block), string(split.block))
		require.Equal(t, whole.fresh, split.fresh)
	})
}

// TestRepeats: after reading again from anywhere in the overlap, each line appears as
// often as it was written.
func TestRepeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
		var all []string
		for range rapid.IntRange(1, 300).Draw(t, "lines") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7, 100, 900, -3}).Draw(t, "step")) * time.Millisecond)
			all = append(all, at.Format(time.RFC3339Nano)+" "+rapid.SampledFrom([]string{"a", "b"}).Draw(t, "text"))
		}
		var r logProgress
		var got []string
		read := 0
		for read < len(all) {
			l := newLines(&r)
			since := r.resumeTime().Truncate(time.Second)
			next := min(read+rapid.IntRange(1, 100).Draw(t, "n"), len(all))
			for _, line := range all[:next] {
				stamp, _, _ := strings.Cut(line, " ")
				when, err := time.Parse(time.RFC3339Nano, stamp)
				require.NoError(t, err)
				if r.Newest == 0 || !when.Before(since) {
					l.addBytes([]byte(line + "\n"))
				}
			}
			for line := range strings.Lines(string(l.block)) {
				got = append(got, strings.Replace(strings.TrimSuffix(line, "\n"), cri, " ", 1))
			}
			for _, key := range l.fresh {
				r.add(key)
			}
			read = next
			if rapid.Bool().Draw(t, "restart") {
				saved, err := json.Marshal(r.trimmed())
				require.NoError(t, err)
				r = logProgress{}
				require.NoError(t, json.Unmarshal(saved, &r))
			}
		}
		require.Equal(t, all, got)
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(day+"0.1Z a\n"), []byte(day+"0.1Z b\n"))
	f.Add([]byte("failed to watch\n"), []byte("2026"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var l, whole lines
		l.addBytes(a)
		l.addBytes(b)
		l.finishAnswer()
		whole.addBytes(append(append([]byte(nil), a...), b...))
		whole.finishAnswer()
		require.Equal(t, string(whole.block), string(l.block))
		require.Equal(t, whole.fresh, l.fresh)
		require.Equal(t, len(l.fresh), bytes.Count(l.block, []byte("\n")))
		var r logProgress
		for _, key := range l.fresh {
			r.add(key)
		}
		again := newLines(&r)
		again.addBytes(whole.block)
		saved := r.trimmed()
		text, err := saved.Lines.MarshalText()
		require.NoError(t, err)
		var restored seenLines
		require.NoError(t, restored.UnmarshalText(text))
		require.True(t, slices.Equal(saved.Lines, restored))
	})
}

func TestRecentIsBounded(t *testing.T) {
	var r logProgress
	at := time.Now().UnixNano()
	for i := range 100_000 {
		at += int64(10 * time.Microsecond)
		r.add(seenLine{at: at, hash: uint32(i)})
		require.LessOrEqual(t, len(r.Lines), 2*maxRecent+600)
	}
	require.LessOrEqual(t, len(r.Lines)-r.head, maxRecent)
	require.NotZero(t, r.Floor)
	r.add(seenLine{at: at + int64(time.Minute)})
	require.Equal(t, 1, len(r.Lines)-r.head)
	require.Zero(t, r.Floor)
}
