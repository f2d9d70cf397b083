package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }

// entry returns an episode of an alert that lasted some minutes.
func entry(alert string, fp uint64, from, to int) Entry {
	return Entry{
		Fingerprint: fp, Alert: alert, Labels: map[string]string{"alertname": alert, "n": fmt.Sprint(fp)},
		Reason: "clear", StartsAt: at(from), FiredAt: at(from), EndsAt: at(to), ConcludedAt: at(to), Lines: 3,
	}
}

func wide() Config {
	return Config{MaxEntries: 1000, MaxBytes: 1 << 20, Retention: 30 * 24 * time.Hour}
}

// written returns what a log would contain after h wrote its pending records.
func written(h *History, log [][]byte) [][]byte {
	b := h.PendingRecords()
	h.MarkWritten(b)
	return append(log, b.Records...)
}

// list formats entries.
func list(all []*Entry) string {
	var out []string
	for _, e := range all {
		out = append(out, fmt.Sprintf("%s/%d %d-%d", e.Alert, e.Fingerprint, int(e.StartsAt.Sub(begin).Minutes()), int(e.EndsAt.Sub(begin).Minutes())))
	}
	return strings.Join(out, ", ")
}

func TestNewestStartFirst(t *testing.T) {
	h := New(wide())
	h.Add(entry("B", 2, 0, 30))
	h.Add(entry("A", 1, 5, 10))
	h.Add(entry("A", 1, 20, 25))
	require.Equal(t, "A/1 20-25, A/1 5-10, B/2 0-30", list(h.All(at(40))))
	require.Equal(t, "A/1 20-25, A/1 5-10", list(h.EntriesOf(1, at(40))))
	require.Empty(t, h.EntriesOf(3, at(40)))
	require.Equal(t, "B/2 0-30", list(h.All(at(28+30*24*60))), "older ones are not shown")
	require.Equal(t, "A/1 20-25", list(h.EntriesOf(1, at(24+30*24*60))))
}

// An end that is concluded again after a restart is the same entry; if it differs, the
// newer conclusion counts.
func TestOneEntryPerEpisode(t *testing.T) {
	h := New(wide())
	h.Add(entry("A", 1, 0, 10))
	log := written(h, nil)
	require.Len(t, log, 1)
	h.Add(entry("A", 1, 0, 10))
	require.Empty(t, h.PendingRecords().Records, "nothing new is written")
	later := entry("A", 1, 0, 12)
	later.Notified = 1
	h.Add(later)
	require.Equal(t, "A/1 0-12", list(h.All(at(20))))
	log = written(h, log)
	require.Len(t, log, 2)
	again := New(wide())
	require.Zero(t, again.Load(log))
	require.Equal(t, "A/1 0-12", list(again.All(at(20))))
	require.Equal(t, 1, again.All(at(20))[0].Notified)
	require.Empty(t, again.PendingRecords().Records)
}

func TestFlaps(t *testing.T) {
	h := New(wide())
	f := func(from, to, want int) {
		t.Helper()
		h.Add(entry("A", 1, from, to))
		require.Equal(t, want, h.EntriesOf(1, at(10000))[0].Flaps)
	}
	f(0, 10, 0)
	f(69, 70, 1)
	f(71, 72, 2)
	f(132, 140, 0)
	f(145, 150, 1)
	other := entry("A", 2, 151, 152)
	h.Add(other)
	require.Zero(t, h.EntriesOf(2, at(10000))[0].Flaps, "another alert")
	again := New(wide())
	again.Load(h.PendingRecords().Records[1:])
	require.Equal(t, 2, again.EntriesOf(1, at(10000))[2].Flaps, "as it was, although one before it is gone")
}

// A tenant with many episodes loses its own oldest ones, and infrastructure keeps a
// quarter for itself.
func TestNamespacesShareTheRoom(t *testing.T) {
	cfg := wide()
	cfg.MaxEntries = 100
	h := New(cfg)
	minute := 0
	add := func(n int, party string, infrastructure bool) {
		for range n {
			e := entry("A", uint64(minute), minute, minute+1)
			e.Tenant, e.Infrastructure = party, infrastructure
			h.Add(e)
			minute++
		}
	}
	count := func() map[string]int {
		out := map[string]int{}
		for _, e := range h.All(at(minute)) {
			out[e.Tenant]++
		}
		return out
	}
	add(10, "kube-system", true)
	add(5, "calm", false)
	add(500, "storm", false)
	require.Equal(t, map[string]int{"kube-system": 10, "calm": 5, "storm": 75}, count())
	newest := h.All(at(minute))[0]
	require.Equal(t, minute-1, int(newest.StartsAt.Sub(begin).Minutes()), "the newest stay")
	for i := range 300 { // a tenant that makes namespaces
		add(1, fmt.Sprint("made-", i), false)
	}
	require.Equal(t, 10, count()["kube-system"])
	add(500, "kube-system", true)
	require.Equal(t, 20, count()["kube-system"], "the others have the rest")
	require.Equal(t, 100, h.Stats().Entries)
}

// One busy rule of a namespace costs its other rules nothing.
func TestRulesShareTheRoomOfANamespace(t *testing.T) {
	cfg := wide()
	cfg.MaxEntries = 50
	h := New(cfg)
	for i := range 10 {
		h.Add(entry("Rare", 1, i, i+1))
	}
	for i := range 500 {
		h.Add(entry("Busy", 2, i, i+1))
	}
	require.Len(t, h.EntriesOf(1, at(600)), 10)
}

// The bound of bytes holds for the records.
func TestBytesAreBounded(t *testing.T) {
	cfg := wide()
	cfg.MaxBytes, cfg.Overhead = 10_000, 18
	h := New(cfg)
	for i := range 200 {
		e := entry("A", uint64(i), i, i+1)
		e.Summary = strings.Repeat("é", 400)
		h.Add(e)
		size := 0
		for _, r := range h.LiveRecords(at(i)).Records {
			size += len(r) + 18
		}
		require.LessOrEqual(t, size, 10_000)
		require.Equal(t, size, h.Stats().Bytes)
	}
	require.LessOrEqual(t, len(h.All(at(300))[0].Summary), maxText)
	require.NotZero(t, h.Stats().Evicted)
}

// A clock that was wrong for a while hides entries, and does not delete them; the log loses
// those that are too old only when it is replaced.
func TestClockIsSet(t *testing.T) {
	h := New(wide())
	h.Add(entry("A", 1, 0, 10))
	year := 365 * 24 * 60
	require.Empty(t, h.All(at(year)))
	h.Add(entry("A", 1, year, year+1))
	require.Equal(t, fmt.Sprintf("A/1 %d-%d, A/1 0-10", year, year+1), list(h.All(at(20))), "the clock is right again")
	require.Len(t, h.LiveRecords(at(20)).Records, 2)
	require.Len(t, h.LiveRecords(at(year)).Records, 1)
	back := entry("A", 1, 15, 12) // the clock was set back between start and end
	require.Zero(t, back.Duration())
	h.Add(back)
	require.Len(t, h.EntriesOf(1, at(20)), 2)
}

func TestUnusableRecords(t *testing.T) {
	h := New(wide())
	h.Add(entry("A", 1, 0, 10))
	good := h.PendingRecords().Records[0]
	again := New(wide())
	require.Equal(t, 2, again.Load([][]byte{nil, []byte("{"), good}))
	require.Equal(t, "A/1 0-10", list(again.All(at(20))))
	require.Error(t, again.Import([]byte("{")))
	require.NoError(t, again.Import([]byte("[null]")))
}

// process is a daemon as far as the history is concerned: at a checkpoint it saves a
// snapshot and appends to the log, in this order, and a kill may come between.
type process struct {
	t        *rapid.T
	h        *History
	log      [][]byte // on disk
	snapshot []byte   // on disk
	ended    int      // episodes that the snapshot has ended: a restart concludes the others again
	now      int      // episodes that ended
}

func (p *process) end() {
	p.h.Add(entry("A", uint64(p.now%7), p.now, p.now+3))
	p.now++
}

// restart loads what is on disk and concludes the other ends again, in another order.
func (p *process) restart() {
	p.h = New(wide())
	p.h.Load(p.log)
	if p.snapshot != nil {
		require.NoError(p.t, p.h.Import(p.snapshot))
	}
	for n := p.now; p.ended < n; n-- {
		p.h.Add(entry("A", uint64((n-1)%7), n-1, n+2))
	}
}

// checkpoint saves; a process that is killed does only so many steps of it.
func (p *process) checkpoint(steps int) {
	saved, err := p.h.Export()
	require.NoError(p.t, err)
	if steps == 0 {
		return
	}
	p.snapshot, p.ended = saved, p.now
	if steps == 1 {
		return
	}
	b := p.h.PendingRecords()
	if steps == 2 {
		p.log = append(p.log, b.Records[:rapid.IntRange(0, len(b.Records)).Draw(p.t, "written")]...)
		return
	}
	p.log = append(p.log, b.Records...)
	p.h.MarkWritten(b)
}

// However a process is killed between the steps of its checkpoints, each ended episode is in
// the history exactly once after the restart that follows.
func TestKills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &process{t: t, h: New(wide())}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1, 2:
				p.end()
			case 3:
				p.checkpoint(3)
			case 4:
				p.checkpoint(rapid.IntRange(0, 3).Draw(t, "until"))
				p.restart()
			}
		}
		p.restart()
		all := slices.Clone(p.h.All(at(100)))
		slices.Reverse(all)
		require.Len(t, all, p.now)
		for i, e := range all {
			require.Equal(t, at(i), e.StartsAt)
		}
	})
}

// Only so many entries wait in snapshots, and none is lost to the log.
func TestPendingIsBounded(t *testing.T) {
	cfg := wide()
	cfg.MaxEntries = 5000
	h := New(cfg)
	for i := range 3000 {
		h.Add(entry("A", 1, i, i+1))
	}
	saved, err := h.Export()
	require.NoError(t, err)
	again := New(cfg)
	require.NoError(t, again.Import(saved))
	require.Len(t, again.All(at(4000)), maxExported)
	require.Len(t, h.PendingRecords().Records, 3000)
}
