package replay

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
)

// hostileLog returns lines of many forms: whole, partial, without an envelope, empty,
// with NUL bytes, and some longer than a block.
func hostileLog(r *rand.Rand, lines int) string {
	var b strings.Builder
	for i := range lines {
		text := fmt.Sprintf("line %d %s", i, []string{"conflict on", "leaderelection lost", "nothing", "successfully acquired"}[r.IntN(4)])
		switch r.IntN(12) {
		case 0:
			text = ""
		case 1:
			text += strings.Repeat("x", r.IntN(300))
		case 2:
			text = "\x00" + text
		}
		stamp := time.Date(2026, 1, 1, 10, 0, i, 0, time.UTC).Format("2006-01-02T15:04:05.000000000Z")
		stream := []string{"stdout", "stderr"}[r.IntN(2)]
		switch r.IntN(20) {
		case 0:
			b.WriteString(text + "\n")
		case 1, 2:
			b.WriteString(stamp + " " + stream + " P " + text + "\n")
		case 3:
			b.WriteString("E0101 10:00:00.000000       1 a.go:1] " + text + "\r\n")
		default:
			b.WriteString(stamp + " " + stream + " F " + text + "\n")
		}
	}
	if r.IntN(2) == 0 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	return b.String()
}

// slowly returns a random part of each read.
type slowly struct {
	r    io.Reader
	rand *rand.Rand
	most int
}

func (s slowly) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), 1+s.rand.IntN(s.most))]) }

// The sizes of reads and the number of speculative blocks do not change the hits.
func TestReaderGivesWhatOneScanGives(t *testing.T) {
	_, prog := compile(t, scanPack)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		text := hostileLog(r, rapid.IntRange(0, 100).Draw(t, "lines"))
		if text != "" {
			text = "2026-01-01T09:00:00Z begins\n" + text // the time of what has none does not depend on blocks
		}
		opt := ScanOptions{Lenient: true, Now: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
		whole := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true, TextTime: true})
		var want []matcher.Hit
		if text != "" {
			want = prog.Scan(whole, []byte(text), opt.Now)
		}
		want = append(want, prog.Flush(whole, opt.Now)...)

		in := Input{Name: "x", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(slowly{strings.NewReader(text), r, rapid.SampledFrom([]int{7, 500, 5000, 1 << 20}).Draw(t, "most")}), nil
		}}
		reader := newReaders(1, prog, opt).newReader(in)
		reader.size = rapid.SampledFrom([]int{64, 1000, 8000, maxBlock}).Draw(t, "block")
		reader.ahead = rapid.IntRange(1, 5).Draw(t, "ahead")
		var got []matcher.Hit
		for {
			ok, err := reader.fill()
			require.NoError(t, err)
			if !ok {
				break
			}
			h := reader.next(1)[0]
			h.Line, h.Values = strings.Clone(h.Line), cloned(h.Values)
			got = append(got, h)
		}
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
		require.Equal(t, whole.Counters(), reader.counted)
		ok, err := reader.fill()
		require.False(t, ok, "the end stays the end")
		require.NoError(t, err)
	})
}

// cloned copies values out of memory that the next block reuses.
func cloned(values []string) []string {
	out := slices.Clone(values)
	for i := range out {
		out[i] = strings.Clone(out[i])
	}
	return out
}

// Lines before a read error count, and the error is returned once.
func TestReaderAfterAnError(t *testing.T) {
	_, prog := compile(t, scanPack)
	broken := errors.New("the disk is gone")
	text := strings.Repeat(cri(1, "conflict on x")+"\n", 5000) + cri(2, "conflict on")
	in := Input{Name: "x", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))), nil
	}}
	r := newReaders(1, prog, ScanOptions{Lenient: true}).newReader(in)
	hits := 0
	for {
		ok, err := r.fill()
		if !ok {
			require.ErrorIs(t, err, broken)
			break
		}
		hits += len(r.next(len(r.hits)))
	}
	require.Equal(t, 5001, hits)
	ok, err := r.fill()
	require.False(t, ok)
	require.NoError(t, err)
}

// Lines before the first time have that time, however far it is; without any they are of now.
func TestLinesBeforeTheFirstTime(t *testing.T) {
	_, prog := compile(t, scanPack)
	now := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	times := func(text string) (out []time.Time) {
		in := Input{Name: "x", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
		reader := newReaders(1, prog, ScanOptions{Lenient: true, Now: now}).newReader(in)
		reader.size = 64
		for {
			ok, err := reader.fill()
			require.NoError(t, err)
			if !ok {
				return out
			}
			out = append(out, reader.next(1)[0].Time.UTC())
		}
	}
	first := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	lost := "conflict on x\n"
	require.Equal(t, []time.Time{first, first, first}, times(lost+strings.Repeat("x\n", 200)+"2026-01-01T10:00:00Z x\n"+lost+"y\n"+lost))
	require.Equal(t, []time.Time{now, now}, times(lost+lost))
}

// Until supplies years, and not the times of lines without one.
func TestYearsOfAnInput(t *testing.T) {
	set, prog := compile(t, scanPack)
	now := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	klog := strings.Repeat("E1218 10:01:08.220145 1 x.go:1] conflict on x\n", 3)
	for _, tt := range []struct {
		text        string
		until, want time.Time
	}{
		{klog, time.Time{}, time.Date(2025, 12, 18, 10, 1, 8, 220145000, time.UTC)},
		{klog, now.AddDate(1, 0, 0), time.Date(2025, 12, 18, 10, 1, 8, 220145000, time.UTC)},
		{klog, time.Date(2020, 12, 18, 0, 0, 0, 0, time.UTC), time.Date(2020, 12, 18, 10, 1, 8, 220145000, time.UTC)},
		{strings.Repeat("x\n", 100<<10) + klog, time.Date(2020, 12, 18, 0, 0, 0, 0, time.UTC), time.Date(2020, 12, 18, 10, 1, 8, 220145000, time.UTC)},
		{"conflict on x\n", time.Date(2020, 12, 18, 0, 0, 0, 0, time.UTC), now},
	} {
		var got matcher.Hit
		in := Input{Name: "x", Until: tt.until, Labels: matcher.Labels{"container": "syncer", "pod": "x"}, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(tt.text)), nil }}
		_, err := Scan(set, prog, []Input{in}, ScanOptions{Now: now, OnHits: func(_ string, hits []matcher.Hit) { got = hits[0] }})
		require.NoError(t, err)
		require.Equal(t, tt.want, got.Time.UTC())
	}
}

// An input without a time is not of now beside one that has times, nor of a time of those.
func TestUntimedInputBesideOthers(t *testing.T) {
	set, prog := compile(t, scanPack)
	now := time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)
	in := func(name, text string) Input {
		return Input{Name: name, Labels: matcher.Labels{"container": "syncer", "pod": name}, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	}
	timed, untimed := in("timed", "2026-01-01T10:00:00Z conflict on x\n2026-01-01T10:00:05Z conflict on x\n"), in("untimed", strings.Repeat("conflict on x\n", 3))
	report, err := Scan(set, prog, []Input{untimed, timed}, ScanOptions{Now: now})
	require.NoError(t, err)
	require.Len(t, report.Alerts, 1)
	require.Zero(t, report.Alerts[0].FiredAt)
	require.Zero(t, report.Alerts[0].Episode.StartsAt)
	require.Zero(t, report.Alerts[0].Episode.LastSeen)
	report, err = Scan(set, prog, []Input{untimed}, ScanOptions{Now: now})
	require.NoError(t, err)
	require.Zero(t, report.Alerts[0].FiredAt)
	require.Equal(t, []string{"untimed"}, report.Untimed)
}
