package position

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
	"crowsnest/sources/internal/content"
)

var (
	at    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	point = Point{Name: "0.log", ID: content.IDOf([]byte("head")), Offset: 3, Checksum: content.SumOf([]byte("rk")), MarkN: 2, End: 9}
)

// The form of a state file is fixed: older and newer versions read it.
const saved = `{"v":1,"at":"2026-01-02T03:04:05Z",` +
	`"losses":{"gap":{"count":2,"at":"2026-01-02T03:04:05Z","path":"/x"}},"roots":{"/r":"1:2"},` +
	`"streams":{"ns_pod/c":{"n":"0.log","h":"9f2e6d33a3717ee826353a40","l":4,"o":3,"m":"da8d176f739559b1fb9c2b64","k":2,"e":9,` +
	`"old":{"n":"x","h":"000000000000000000000000","l":0,"o":0,"m":"000000000000000000000000","k":0,"e":0},"ended":true,` +
	`"done":[{"h":"9f2e6d33a3717ee826353a40","l":4,"s":7}]}}}`

func TestForm(t *testing.T) {
	s := Set{
		ReadUpTo: at, Losses: map[string]sources.Loss{"gap": {Count: 2, Time: at, Path: "/x"}}, Roots: map[string]string{"/r": "1:2"},
	}
	streams := map[string]*Stream{
		"none":     nil,
		"ns_pod/c": {Point: point, RotatedPoint: &Point{Name: "x"}, Ended: true, ReadFiles: []File{{point.ID, 7}}},
	}
	for range 2 { // the second time from what was kept
		b := s.Encode(maps.All(streams), 1)
		require.Equal(t, saved, string(b))
		got, err := Decode(b)
		require.NoError(t, err)
		require.Equal(t, s.Losses, got.Losses)
		require.Equal(t, s.Roots, got.Roots)
		require.Equal(t, at, got.ReadUpTo)
		require.Len(t, got.Streams, 1)
		again := got.Streams["ns_pod/c"]
		again.encoded = streams["ns_pod/c"].encoded
		require.Equal(t, streams["ns_pod/c"], again)
	}
	require.JSONEq(t, `{"v":1,"at":"2026-01-02T03:04:05Z","streams":{}}`, string(Set{ReadUpTo: at}.Encode(maps.All(map[string]*Stream{}), 0)))
}

// More streams than a set may have are not saved: the file could not be read again.
func TestEncodeIsBounded(t *testing.T) {
	streams := map[string]*Stream{}
	for i := range MaxStreams + 10 {
		streams[fmt.Sprint(i)] = &Stream{}
	}
	got, err := Decode(Set{}.Encode(maps.All(streams), len(streams)))
	require.NoError(t, err)
	require.Len(t, got.Streams, MaxStreams)
}

// A state file may hold anything. Numbers that no reader can have written are errors.
func TestDecodeRefuses(t *testing.T) {
	f := func(want string, change func(s *Stream)) {
		t.Helper()
		s := &Stream{Point: point, ReadFiles: []File{{point.ID, 7}}}
		old := point
		s.RotatedPoint = &old
		change(s)
		b, err := json.Marshal(Set{Version: version, Streams: map[string]*Stream{"key": s}})
		require.NoError(t, err)
		if _, err = Decode(b); want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, want)
		}
	}
	bad := `the saved position in "key" is invalid`
	f("", func(*Stream) {})
	f(bad, func(s *Stream) { s.Offset = -1 })
	f(bad, func(s *Stream) { s.N = content.HeadSize + 1 })
	f(bad, func(s *Stream) { s.N = -1 })
	f(bad, func(s *Stream) { s.End = s.Offset - 1 })
	f(bad, func(s *Stream) { s.MarkN = MarkSize + 1 })
	f(bad, func(s *Stream) { s.MarkN = int(s.End) + 1 })
	f(bad, func(s *Stream) { s.MarkN = -1 })
	f(bad, func(s *Stream) { s.RotatedPoint.Offset = -1 })
	f(bad, func(s *Stream) { s.ReadFiles[0].N = 0 })
	f(bad, func(s *Stream) { s.ReadFiles[0].N = content.HeadSize + 1 })
	f(bad, func(s *Stream) { s.ReadFiles = make([]File, MaxDone+1) })

	_, err := Decode([]byte(`{"v":1,"streams":{"key":null}}`))
	require.EqualError(t, err, bad)
	_, err = Decode([]byte(`{"v":2}`))
	require.EqualError(t, err, "version 2 is unknown")
	_, err = Decode([]byte(`{`))
	require.Error(t, err)
}

// A point fits a file that has the same bytes before it, whatever comes after.
func TestFits(t *testing.T) {
	f := func(want bool, text string) {
		t.Helper()
		got, err := Point{Checksum: content.SumOf([]byte("mark")), MarkN: 4, Offset: 2, End: 6}.IsPrefixOf(bytes.NewReader([]byte(text)), int64(len(text)))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f(true, "..mark")
	f(true, "xxmark and more")
	f(false, "..mar")
	f(false, "..Mark")
	f(false, ".mark..")
	got, err := Point{Checksum: content.SumOf(nil)}.IsPrefixOf(bytes.NewReader(nil), 0)
	require.NoError(t, err)
	require.True(t, got, "nothing was read")
}
