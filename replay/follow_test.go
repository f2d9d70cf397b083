package replay

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
)

// following follows logs of a pack, with a clock that the test moves.
type following struct {
	*Follower
	now     time.Time
	prog    *matcher.Program
	streams map[string]*matcher.Stream
	seen    []string // alerts: name, state, time of firing
}

func follow(t *testing.T, pack string, ordered bool) *following {
	set, prog := compile(t, pack)
	f := &following{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), prog: prog, streams: map[string]*matcher.Stream{}}
	f.Follower = NewFollower(Target{set, prog}, FollowOptions{
		Scan: ScanOptions{Lenient: true, Findings: true}, Clock: func() time.Time { return f.now }, Ordered: ordered,
		OnAlert: func(x episodes.Episode) {
			require.False(t, x.OnHold)
			f.seen = append(f.seen, fmt.Sprintf("%s %s %s", x.Alert, x.State, x.StartsAt.UTC().Format(time.TimeOnly)))
		},
	})
	return f
}

func (f *following) write(log string, lines ...string) {
	s := f.streams[log]
	if s == nil {
		s = matcher.NewStream(matcher.Labels{"pod": log}, matcher.StreamOptions{Lenient: true, TextTime: true})
		f.streams[log] = s
	}
	for _, line := range lines {
		at, _ := matcher.TimeOf([]byte(line), f.now)
		f.Take(log, f.prog.Scan(s, []byte(line+"\n"), f.now), at)
	}
}

func at(clock, text string) string { return "2026-01-01T" + clock + ".000000000Z stderr F " + text }

// The times of recorded lines drive the clock, in any order of the logs. The clock of this
// machine drives it for later lines.
func TestFollower(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		f := follow(t, scanPack, ordered)
		f.write("a", at("10:00:00", "leaderelection lost"), at("10:10:00", "successfully acquired"), at("11:00:00", "leaderelection lost"), at("11:01:00", "successfully acquired"))
		if !ordered {
			require.Empty(t, f.seen, "another log may have older lines")
			f.write("b", at("09:00:00", "leaderelection lost"))
		}
		f.Advance(f.now)
		want := []string{"Lost firing 10:00:00", "Lost resolved 10:00:00"}
		if !ordered {
			want = []string{"Lost firing 09:00:00", "Lost resolved 09:00:00"} // one key, and the older line came later
		}
		require.Equal(t, want, f.seen)

		f.seen = nil
		f.now = f.now.Add(time.Hour)
		f.write("c", at("13:00:00", "leaderelection lost"))
		f.now = f.now.Add(100 * time.Second)
		f.Advance(f.now)
		require.Empty(t, f.seen, "two minutes have not passed")
		f.now = f.now.Add(time.Minute)
		f.Advance(f.now)
		require.Equal(t, []string{"Lost firing 13:00:00"}, f.seen)
		f.write("c", at("13:02:30", "successfully acquired"))
		f.Advance(f.now)
		require.Equal(t, []string{"Lost firing 13:00:00", "Lost resolved 13:00:00"}, f.seen)
	}
}

// A count fires with its last line.
func TestFollowerCounts(t *testing.T) {
	f := follow(t, scanPack, false)
	f.Advance(f.now)
	f.write("a", at("12:00:00", "conflict on 1"), at("12:00:01", "conflict on 2"))
	require.Empty(t, f.seen)
	f.write("a", at("12:00:02", "conflict on 3"))
	require.Equal(t, []string{"Often firing 12:00:02"}, f.seen)
}

// Where the input ends, the clock runs on as in a scan; where a person ends it, nothing
// more becomes certain.
func TestFollowerFinish(t *testing.T) {
	for _, runOn := range []bool{true, false} {
		f := follow(t, scanPack, true)
		f.write("a", at("12:00:00", "leaderelection lost"))
		report := f.Finish(runOn)
		require.EqualValues(t, 1, report.Hits)
		if runOn {
			require.Equal(t, []string{"Lost firing 12:00:00"}, f.seen)
			require.Equal(t, 1, f.Alerts())
			require.Empty(t, report.Findings)
		} else {
			require.Empty(t, f.seen)
			require.Zero(t, f.Alerts())
			require.Len(t, report.Findings, 1)
		}
	}
	f := follow(t, scanPack, true)
	require.Empty(t, f.Finish(true).Findings)
}

// A flood of hits does not grow without bound while logs are read.
func TestFollowerIsBounded(t *testing.T) {
	f := follow(t, scanPack, false)
	for i := range maxWaiting + 10 {
		f.write("a", at("12:00:00", fmt.Sprint("conflict on ", i)))
	}
	require.LessOrEqual(t, len(f.waiting), maxWaiting)
	f.Advance(f.now)
	require.Equal(t, []string{"Often firing 12:00:00"}, f.seen)
}

// Without alerts, hits of any log are passed on at once.
func TestFollowerOfHits(t *testing.T) {
	set, prog := compile(t, scanPack)
	var files []string
	f := NewFollower(Target{set, prog}, FollowOptions{Clock: time.Now, Scan: ScanOptions{
		Lenient: true, HitsOnly: true, OnHits: func(file string, _ []matcher.Hit) { files = append(files, file) },
	}})
	s := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true})
	f.Take("x", prog.Scan(s, []byte(at("12:00:00", "conflict on 1")+"\n"), time.Now()), time.Time{})
	require.Equal(t, []string{"x"}, files, "at once")
	f.Advance(time.Now())
	report := f.Finish(true)
	require.EqualValues(t, 1, report.Hits)
}
