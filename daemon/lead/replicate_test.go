package lead

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/setclock"
	"crowsnest/test/wait"
)

// quick are times for tests with a real network.
var quick = Times{Lease: 1500 * time.Millisecond, Renew: time.Second, Retry: 50 * time.Millisecond, Grace: time.Minute, Empty: 50 * time.Millisecond}

const patience = 20 * time.Second

// kept is what a standby has on its disk.
type kept struct {
	mu      sync.Mutex
	payload string
	log     []string
	whole   int
	err     error
}

func (k *kept) Keep(packed []byte, records [][]byte, whole bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	b, err := Unpack(packed, 1<<20)
	if err != nil {
		return err
	}
	if whole {
		k.log, k.whole = nil, k.whole+1
	}
	for _, r := range records {
		k.log = append(k.log, string(r))
	}
	k.payload = string(b)
	return nil
}

func (k *kept) get() (payload, log string, whole int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.payload, fmt.Sprint(k.log), k.whole
}

func (k *kept) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// duo is a leader and its standby.
type duo struct {
	t       *testing.T
	store   *memory
	elector *Elector
	leader  *Leader
	log     [][]byte
	url     string
	cut     sync.Mutex // held: the network is cut
	stop    []func()
}

// connected waits until the network is not cut.
func (d *duo) connected() {
	d.cut.Lock()
	defer d.cut.Unlock()
}

// now is the clock of the leader; nil: time.Now.
func newDuo(t *testing.T, now func() time.Time) *duo {
	d := &duo{t: t, store: &memory{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.connected()
		d.leader.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	d.url = srv.URL
	d.elector = NewElector(d.store.from("a"), Candidate{ID: "a", URL: srv.URL, State: true, Version: 3}, quick, now)
	d.leader = NewLeader(d.elector, 3, 300*time.Millisecond, func() [][]byte { return d.log }, func() {})
	d.run(d.elector.Run)
	<-d.elector.Won()
	d.run(d.leader.Run)
	t.Cleanup(func() {
		for _, stop := range d.stop {
			stop()
		}
	})
	return d
}

func (d *duo) run(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	stop = func() { cancel(); wg.Wait() }
	d.stop = append(d.stop, stop)
	return stop
}

// standby starts a standby that can read checkpoints up to a version.
func (d *duo) standby(id string, version int, k *kept) (s *Standby, stop func()) {
	e := NewElector(d.store.from(id), Candidate{ID: id}, quick, nil)
	transport := &http.Transport{DisableKeepAlives: true}
	s = NewStandby(e, k, version, &http.Client{Transport: transport})
	a, b := d.run(e.Run), d.run(s.Run)
	return s, func() { b(); a() }
}

// confirms reports whether a checkpoint is confirmed within a while.
func (d *duo) confirms(gen uint64, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return d.leader.Wait(ctx, gen)
}

func (d *duo) current(want ...string) {
	d.t.Helper()
	require.True(d.t, wait.Until(patience, func() bool {
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		return fmt.Sprint(d.store.rec.Current) == fmt.Sprint(want)
	}), "current are %v", want)
}

// A standby knows how far its clock is from that of the leader.
func TestTheClockOfTheLeaderIsMeasured(t *testing.T) {
	var clock setclock.Clock
	clock.Set(time.Hour)
	d := newDuo(t, clock.Now)
	require.True(t, d.confirms(d.leader.Offer([]byte("one"), nil), patience))
	s, _ := d.standby("b", 3, &kept{})
	require.True(t, wait.Until(patience, func() bool { return s.SyncStatus().ClockLead.Round(time.Minute) == -time.Hour }))
}

// A standby gets the newest rule files once, also without a new checkpoint.
func TestRulesOfTheLeader(t *testing.T) {
	d := newDuo(t, nil)
	require.True(t, d.confirms(d.leader.Offer([]byte("one"), nil), patience))
	s, _ := d.standby("b", 3, &kept{})
	require.True(t, wait.Until(patience, func() bool { return !s.SyncStatus().Time.IsZero() }))
	id, _ := s.Rules()
	require.Empty(t, id, "the leader does not know them")
	for _, text := range []string{"first", "null", "first"} {
		d.leader.OfferRules([]byte(text))
		require.True(t, wait.Until(patience, func() bool { _, got := s.Rules(); return string(got) == text }))
	}
	id, _ = s.Rules()
	h, _ := d.leader.pollResponse(&poll{ID: "b", Process: d.leader.process, Generation: 1, Rules: id})
	require.Empty(t, h.Rules)
	require.Empty(t, h.RulesID)
}

// What is confirmed is on both disks, as long as the record says so.
func TestReplication(t *testing.T) {
	d, k := newDuo(t, nil), &kept{}
	d.log = [][]byte{[]byte("old")}
	require.True(t, d.confirms(d.leader.Offer([]byte("one"), nil), patience), "it is alone")
	_, stop := d.standby("b", 3, k)
	d.current("a", "b")
	for i := range 20 {
		want := fmt.Sprint("state ", i, string(bytes.Repeat([]byte{'x'}, 1000*i)))
		require.True(t, d.confirms(d.leader.Offer([]byte(want), [][]byte{fmt.Append(nil, i)}), patience))
		payload, _, _ := k.get()
		require.Equal(t, want, payload)
	}
	_, log, whole := k.get()
	require.Equal(t, "[old 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19]", log)
	require.Equal(t, 1, whole)
	require.True(t, d.leader.Replication().Up)

	// While its disk fails, nothing is confirmed until the record says that it lacks something.
	k.fail(errors.New("no room"))
	d.store.set("a", true)
	require.False(t, d.confirms(d.leader.Offer([]byte("two"), nil), 500*time.Millisecond))
	d.current("a", "b")
	k.fail(nil)
	d.store.set("a", false)
	require.True(t, d.confirms(d.leader.Offer([]byte("three"), nil), patience))
	stop()
	gen := d.leader.Offer([]byte("four"), nil)
	require.True(t, d.confirms(gen, patience), "it goes on alone")
	d.current("a")
	require.False(t, d.leader.Replication().Up)
	require.False(t, d.leader.Replication().NoStandbySince.IsZero())
}

// A leader that reaches neither the record nor its standby confirms nothing, and so
// notifies of nothing new, even if its clock stands still and it leads by force while its
// standby has taken over.
func TestCutOffLeaderConfirmsNothing(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		var stoppedAt atomic.Pointer[time.Time]
		d, k := newDuo(t, func() time.Time {
			if at := stoppedAt.Load(); at != nil {
				return *at
			}
			return time.Now()
		}), &kept{}
		d.leader.Offer([]byte("one"), nil)
		s, _ := d.standby("b", 3, k)
		d.current("a", "b")
		func() {
			d.cut.Lock()
			defer d.cut.Unlock()
			d.store.set("a", true)
			if stopped {
				stoppedAt.Store(new(time.Now()))
			}
			require.True(t, wait.Until(patience, s.elector.IsLeading))
			require.Equal(t, stopped, d.elector.IsLeading())
			require.False(t, d.confirms(d.leader.Offer([]byte("two"), nil), time.Second))
			payload, _, _ := k.get()
			require.Equal(t, "one", payload)
		}()
	}
}

// A standby that missed checkpoints gets the whole log.
func TestMissedCheckpoints(t *testing.T) {
	d, k := newDuo(t, nil), &kept{}
	d.leader.Offer([]byte("one"), nil)
	_, stop := d.standby("b", 3, k)
	d.current("a", "b")
	stop()
	d.log = [][]byte{[]byte("all")}
	for range 3 {
		require.True(t, d.confirms(d.leader.Offer([]byte("later"), [][]byte{[]byte("part")}), patience))
	}
	d.standby("b", 3, k)
	d.current("a", "b")
	payload, log, whole := k.get()
	require.Equal(t, "later", payload)
	require.Equal(t, "[all]", log)
	require.Equal(t, 2, whole)
}

// An older standby refuses the checkpoints of a newer leader, which goes on alone.
func TestOlderStandby(t *testing.T) {
	d, k := newDuo(t, nil), &kept{}
	d.leader.Offer([]byte("one"), nil)
	s, _ := d.standby("b", 2, k)
	require.True(t, wait.Until(patience, func() bool { return errors.Is(s.SyncStatus().Err, ErrNewer) }))
	require.True(t, d.confirms(d.leader.Offer([]byte("two"), nil), patience))
	d.current("a")
	payload, _, _ := k.get()
	require.Empty(t, payload)
}

// One standby is enough, and a state folder has one process.
func TestRefusedStandbys(t *testing.T) {
	d, k := newDuo(t, nil), &kept{}
	d.leader.Offer([]byte("one"), nil)
	d.standby("b", 3, k)
	d.current("a", "b")
	f := func(id, want string) {
		t.Helper()
		s, _ := d.standby(id, 3, &kept{})
		require.True(t, wait.Until(patience, func() bool { return s.SyncStatus().Err != nil }))
		require.ErrorContains(t, s.SyncStatus().Err, want)
	}
	f("c", "another standby is connected")
	post := func(body string) int {
		t.Helper()
		w := httptest.NewRecorder()
		d.leader.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader([]byte(body))))
		return w.Code
	}
	require.Equal(t, http.StatusConflict, post(`{"id":"a","version":3}`), "the folder of the leader")
	require.Equal(t, http.StatusBadRequest, post(`nonsense`))
	require.Equal(t, http.StatusBadRequest, post(`{}`))
}

// A damaged or foreign answer is not kept.
func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"process":"p","generation":1,"size":3,"sum":"` + checksum([]byte("abc")) + `"}` + "\nabc"))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"size":-1}` + "\n"))
	f.Add([]byte(`{"size":99999999999}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, packed, err := readAnswer(bytes.NewReader(b))
		if err == nil {
			require.Len(t, packed, h.Size)
			require.True(t, h.Size == 0 || checksum(packed) == h.Sum)
		}
		_, _ = Unpack(b, 1<<20)
	})
}

// A leader without news answers before it would count the standby as unreachable, however long its lease is.
func TestIdleLeaderAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewElector((&memory{}).from("a"), Candidate{ID: "a", Version: 1}, Settings{LeaseDuration: 10 * time.Minute}.ElectionTimes(), nil)
		l := NewLeader(e, 1, DefaultAlone, nil, func() {})
		w, began := httptest.NewRecorder(), time.Now()
		l.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, strings.NewReader(`{"id":"b","version":1}`)))
		require.Equal(t, http.StatusOK, w.Code)
		require.Less(t, time.Since(began), DefaultAlone)
	})
}
