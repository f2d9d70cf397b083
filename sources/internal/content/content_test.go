package content

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func cri(t time.Time, text string) string {
	return t.Format(time.RFC3339Nano) + " stderr F " + text + "\n"
}

func gzipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(s))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestLineTime(t *testing.T) {
	f := func(line string, want time.Time) {
		t.Helper()
		got, ok := LineTime([]byte(line))
		require.Equal(t, !want.IsZero(), ok)
		require.True(t, want.Equal(got), "%s", got)
	}
	f("2026-01-01T00:00:00Z stdout F x", start)
	f("2026-01-01T02:00:00.5+02:00 stderr P x\nrest", start.Add(500*time.Millisecond))
	f(`{"log":"x\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}`, start)
	f(`{"log":",\"time\":\"1999-01-01T00:00:00Z\"","stream":"stdout","time":"2026-01-01T00:00:00Z"}`, start)
	f("2026-01-01T00:00:00Z x", time.Time{})          // no stream
	f("2026-01-01T00:00:00Z", time.Time{})            // cut off
	f(`{"log":"x","time":"2026-01-`, time.Time{})     // cut off
	f(`{"log":"x"}`, time.Time{})                     // no time
	f("1969-01-01T00:00:00Z stdout F x", time.Time{}) // not a plausible time
	f("9999-01-01T00:00:00Z stdout F x", time.Time{})
	f("\n2026-01-01T00:00:00Z stdout F x", time.Time{}) // the first line is empty
	f("", time.Time{})
}

// A file keeps its ID while it grows; a truncated or different file does not match it.
func TestID(t *testing.T) {
	head := []byte(cri(start, "begins"))
	id := IDOf(head)
	require.True(t, id.Is(head))
	require.True(t, id.Is(append(bytes.Clone(head), "more"...)))
	require.False(t, id.Is(head[:len(head)-1]), "it was truncated")
	require.False(t, id.Is(bytes.ToUpper(head)))
	require.Equal(t, start.UnixNano(), id.FirstLineTime)
	require.False(t, ID{}.Is(head), "not identified yet")
	require.False(t, IDOf(nil).Is(nil))
}

func TestIDIsSavedWithoutText(t *testing.T) {
	id := IDOf([]byte("password"))
	b, err := json.Marshal(id)
	require.NoError(t, err)
	require.NotContains(t, string(b), "pass")
	var got ID
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, id, got)
	require.ErrorContains(t, new(Sum).UnmarshalText([]byte("abc")), "wrong length")
	require.Error(t, new(Sum).UnmarshalText(bytes.Repeat([]byte("x"), 24)))
}

func TestReadHead(t *testing.T) {
	f := func(text string) {
		t.Helper()
		want := text[:min(len(text), HeadSize)]
		head, err := ReadHead(strings.NewReader(text), false)
		require.NoError(t, err)
		require.Equal(t, want, string(head))
		z := gzipped(t, text)
		head, err = ReadHead(bytes.NewReader(z), true)
		require.NoError(t, err)
		require.Equal(t, want, string(head))
		require.EqualValues(t, len(text), FullSize(bytes.NewReader(z), int64(len(z)), true))
		require.EqualValues(t, len(text), FullSize(nil, int64(len(text)), false))
	}
	f("")
	f("short")
	f(strings.Repeat("x", HeadSize))
	f(strings.Repeat("x", 3*HeadSize))
	_, err := ReadHead(strings.NewReader("not compressed"), true)
	require.ErrorIs(t, err, gzip.ErrHeader)
	require.Zero(t, FullSize(strings.NewReader("ab"), 2, true), "too short for a .gz")
	_, err = ReadHead(failing{}, false)
	require.ErrorIs(t, err, errFailing)
}

var errFailing = errors.New("input/output error")

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errFailing }

func TestLineStart(t *testing.T) {
	f := func(text string, size, want int64) {
		t.Helper()
		require.Equal(t, want, LineStart(strings.NewReader(text), size))
	}
	f("one\ntwo\n", 8, 8)
	f("one\ntwo", 7, 4)
	f("one\ntwo\nthree", 6, 4)
	f("one", 3, 3) // no line starts before it
	f("", 0, 0)
	f(strings.Repeat("x", 2*searchSize), 2*searchSize, 2*searchSize) // too long to look for its start
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 0, "a\n": 0, "a\nb": 2, "a\nb\n": 2, "a\n\n": 2} {
		require.Equal(t, want, LastLine([]byte(text)), "%q", text)
	}
}

// Search skips only lines that are older than from, and skips nearly all of them.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		at := start
		n := rapid.IntRange(0, 3000).Draw(t, "lines")
		starts := make([]int64, 0, n)
		when := make([]time.Time, 0, n)
		pad := strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "length"))
		untimed := rapid.IntRange(2, 50).Draw(t, "one without a time in")
		for i := range n {
			at = at.Add(100 * time.Millisecond)
			starts, when = append(starts, int64(b.Len())), append(when, at)
			if i%untimed == 1 {
				fmt.Fprintln(&b, "no envelope", pad)
			} else {
				b.WriteString(cri(at, pad))
			}
		}
		text := b.String()
		from := start.Add(time.Duration(rapid.IntRange(-10, 400).Draw(t, "from")) * time.Second)
		got := Search(strings.NewReader(text), int64(len(text)), from)
		require.True(t, got == 0 || text[got-1] == '\n', "a line starts there")
		for i, s := range starts {
			if s < got {
				require.True(t, when[i].Before(from), "line %d is not older", i)
			}
		}
		skippable := int64(0)
		for i, s := range starts {
			if when[i].Before(from.Add(-2 * time.Second)) {
				skippable = s
			}
		}
		require.GreaterOrEqual(t, got, skippable-searchSize)
	})
}
