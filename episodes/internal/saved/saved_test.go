package saved

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes/internal/window"
	"crowsnest/redact"
	"crowsnest/rules"
)

func TestParse(t *testing.T) {
	f := func(data, want string) {
		t.Helper()
		_, err := Parse([]byte(data))
		require.ErrorContains(t, err, want)
	}
	f(`{`, "read snapshot of episodes: unexpected end of JSON input")
	f(`{"version":2}`, "its version is 2, but this release reads only version 1")
	data, err := json.Marshal(New([]string{"cluster"}))
	require.NoError(t, err)
	s, err := Parse(data)
	require.NoError(t, err)
	require.Equal(t, New([]string{"cluster"}), s)
}

// A rule is left out only if a restart without it changes nothing.
func TestEmpty(t *testing.T) {
	require.True(t, (&Rule{Alert: "A", Hash: "1", BriefFailures: []Episode{}}).Empty())
	for _, r := range []Rule{
		{Open: make([]Episode, 1)},
		{Windows: make([]Window, 1)},
		{BriefFailures: make([]Episode, 1)},
		{Cleared: make([]Clears, 1)},
		{Muted: make([]Entry[[]int64], 1)},
		{Overflow: &Overflow{}},
	} {
		require.False(t, r.Empty())
	}
}

// A window goes on counting as if nothing had happened.
func TestWindowsAreLoadedAsTheyWere(t *testing.T) {
	f := func(r *rules.Rule, steps ...int) {
		t.Helper()
		r.CapturedNames = []string{"v"}
		w := window.New(r)
		for i, step := range steps {
			h := &window.Hit{T: int64(i), ID: uint64(i) + 1, Names: r.CapturedNames, Values: []redact.Text{redact.Text(rune('a' + i))}, Line: window.Text{Clean: "line"}}
			w.Add(r, step, h, &window.Copier{}, window.Gap{Lo: window.NoTime, Hi: window.Forever})
		}
		l := Lines{Max: 10}
		s := l.SaveWindow(r, &w, window.Text{})
		data, err := json.Marshal(s)
		require.NoError(t, err)
		var read Window
		require.NoError(t, json.Unmarshal(data, &read))
		got := read.Restore(r, r.CapturedNames)
		require.Equal(t, w.Size(), got.Size())
		require.Equal(t, w.NewestTime(), got.NewestTime())
		again := Lines{Max: 10}
		require.Equal(t, s, again.SaveWindow(r, &got, window.Text{}))
	}
	f(&rules.Rule{Count: 5, Within: time.Hour, Steps: make([]rules.Step, 1)}, 0, 0, 0)
	f(&rules.Rule{Count: 5, Within: time.Hour, Distinct: "v", Steps: make([]rules.Step, 1)}, 0, 0, 0)
	f(&rules.Rule{Count: 1, Within: time.Hour, Sequence: true, Steps: make([]rules.Step, 3)}, 0, 1, 0, 2)
}

// Values belong to the names of the rule, in its order; a hit may be of an older version.
func TestValuesOfAnotherVersion(t *testing.T) {
	r := &rules.Rule{CapturedNames: []string{"b", "c"}}
	hs := window.Hits{{T: 1, Names: []string{"a", "b"}, Values: []redact.Text{"1", "2"}}}
	require.Equal(t, []Hit{{T: 1, Values: []redact.Text{"2", ""}}}, SaveValues(r, hs))
}

// Lines are redacted when they are saved, and once.
func TestLines(t *testing.T) {
	raw, clean, empty, changed := window.Text{Raw: "secret one"}, window.Text{Clean: "already clean"}, window.Text{}, window.Text{Raw: "secret two"}
	l := Lines{Max: 8}
	var out [4]redact.Text
	for i, x := range []*window.Text{&raw, &clean, &empty, &changed} {
		l.SaveLine(&out[i], x)
	}
	require.Equal(t, [4]redact.Text{1: "already "}, out)
	redacted := l.Redact(func(s string) redact.Text { return redact.Text(strings.ReplaceAll(s, "secret", "***")) })
	require.Equal(t, [4]redact.Text{"*** one", "already ", "", "*** two"}, out)
	changed.Raw = "a newer line"
	l.ReplaceRedacted(redacted)
	require.Equal(t, window.Text{Clean: "*** one"}, raw)
	require.Equal(t, window.Text{Raw: "a newer line"}, changed)
}

func TestClears(t *testing.T) {
	c := window.NoClears().Add(10, 0, window.NoTime).Add(20, 0, window.NoTime)
	s := SaveClears(c, "key", "party")
	require.Equal(t, c, s.Restore())
	require.Equal(t, window.Clears{Newest: 20, Since: 20}, Clears{Entry: Entry[int64]{Value: 20}}.Restore(), "of a program that knew the newest line alone")
}
