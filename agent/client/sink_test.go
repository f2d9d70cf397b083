package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/agent/wire"
	"crowsnest/matcher"
	"crowsnest/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is an aggregator that accepts batches in order, and records them.
type peer struct {
	owned   wire.RulesAnswer // rules of namespaces that the aggregator offers
	fetches int

	mu        sync.Mutex
	heard     []string
	watermark time.Time
	lagging   []matcher.LaggingStream // of the newest message
	bye       bool
	final     bool
	taken     uint64
	saved     uint64
	lazy      bool // it saves nothing
	hits      int
	refuse    func(m wire.Message) (code int, ours bool)
	hang      bool
	lose      bool // answers get lost
	headers   http.Header
	reports   []wire.Report
	answers   wire.ReportAnswer // to a report
	refuses   int               // reports, with this status
}

func (p *peer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	hang := p.hang
	p.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	lost := p.serve(w, r, body)
	if lost {
		return nil, fmt.Errorf("read: connection reset by peer")
	}
	return w.Result(), nil
}

func (p *peer) serve(w *httptest.ResponseRecorder, r *http.Request, body []byte) (lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == wire.ReportPath {
		p.report(w, body)
		return false
	}
	if r.URL.Path == wire.RulesPath {
		p.fetches++
		_ = json.NewEncoder(w).Encode(p.owned)
		return false
	}
	m, err := wire.ReadMessage(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return false
	}
	p.headers = r.Header.Clone()
	if p.refuse != nil {
		if code, ours := p.refuse(m); code != 0 {
			if ours {
				w.Header().Set(wire.Header, "1")
			}
			http.Error(w, "no", code)
			return false
		}
	}
	w.Header().Set(wire.Header, "1")
	p.lagging = m.Lagging
	what := fmt.Sprintf("%d/%d", m.Sequence, m.OldestSequence)
	if m.Payload != nil {
		what += " hits"
		if m.Sequence == p.taken+1 {
			b, err := new(wire.Decoder).Decode(m.Payload)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return false
			}
			p.taken = m.Sequence
			p.hits += b.Len()
		}
	}
	p.heard = append(p.heard, what)
	if m.Sequence <= p.taken && m.Watermark.After(p.watermark) {
		p.watermark = m.Watermark
	}
	p.bye, p.final = m.Goodbye, m.Final
	if !p.lazy {
		p.saved = p.taken
	}
	_ = json.NewEncoder(w).Encode(wire.Answer{AcceptedSequence: p.taken, SavedSequence: p.saved, Report: p.answers.Report, OwnedRules: p.owned.ID})
	return p.lose
}

// said returns what arrived since the last call.
func (p *peer) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := strings.Join(p.heard, ", ")
	p.heard = nil
	return out
}

func (p *peer) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

var rule = &rules.Rule{Alert: "A", Hash: "1", Count: 1, Steps: make([]rules.Step, 1)}

func some(n int) []matcher.Hit {
	out := make([]matcher.Hit, n)
	for i := range out {
		out[i] = matcher.Hit{Rule: rule, Time: time.Now(), Line: "line", ID: uint64(i)}
	}
	return out
}

// run runs a sink in a bubble until the test ends.
func run(t *testing.T, p *peer, most int, test func(t *testing.T, s *Sink, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{URL: "http://aggregator:9798", Node: "n1"}, Options{Transport: p, MaxUnacked: most})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		stopped := false
		stop := func() {
			if !stopped {
				stopped = true
				s.Release()
				cancel()
				require.NoError(t, <-done)
			}
		}
		test(t, s, stop)
		stop()
	})
}

// after lets virtual time pass.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func TestWhatIsSentWhen(t *testing.T) {
	p := &peer{}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		require.Equal(t, "0/1", p.said(), "at once, to see whether it is there")
		require.False(t, s.Stats().LastAnswer.IsZero())
		s.AddSource("kubelet", rules.Lateness)
		s.AddSource("loki", rules.Lateness+time.Minute)
		after(5 * time.Second)
		require.Equal(t, "0/1, 0/1", p.said(), "nothing to report")
		require.True(t, p.watermark.IsZero())
		s.AdvanceWatermark("kubelet", time.Now())
		after(5 * time.Second)
		require.True(t, p.watermark.IsZero(), "one source has proved nothing")
		now := time.Now()
		s.AdvanceWatermark("loki", now)
		s.AdvanceWatermark("kubelet", now)
		after(time.Second)
		p.said()
		s.Take(some(3))
		synctest.Wait()
		require.Equal(t, "1/1 hits", p.said(), "the first at once")
		require.Equal(t, 3, p.hits)
		require.True(t, p.watermark.Equal(now.Add(-time.Minute)), "the later source is so much later")
		s.RemoveSource("loki")
		for range 20 {
			s.Take(some(1))
			after(10 * time.Millisecond)
		}
		require.Equal(t, "2/2 hits", p.said(), "then five times a second")
		s.Take(some(1))
		stop()
		require.Equal(t, "3/3 hits, 3/4", p.said())
		require.Equal(t, 24, p.hits)
		require.True(t, p.bye)
		require.False(t, p.final)
		require.True(t, p.watermark.Equal(now))
	})
}

func TestWhatIsNotSafeIsKept(t *testing.T) {
	p := &peer{lazy: true}
	run(t, p, 0, func(t *testing.T, s *Sink, _ func()) {
		s.Take(some(1))
		seq, ok := s.Checkpoint()
		require.True(t, ok)
		require.Equal(t, uint64(1), seq)
		after(time.Second)
		s.Take(some(1))
		after(time.Second)
		require.Zero(t, s.AckedBatch())
		require.Equal(t, 2, s.Stats().Batches)
		p.said()
		after(time.Second)
		require.Equal(t, "2/1, 2/1", p.said(), "it asks")
		p.set(func() { p.saved = 1 })
		after(time.Second)
		require.Equal(t, uint64(1), s.AckedBatch())
		require.Equal(t, 1, s.Stats().Batches)

		// The aggregator starts again with what it saved.
		p.set(func() { p.taken, p.hits = 1, 0 })
		p.said()
		after(time.Second)
		require.Equal(t, "2/2, 2/2 hits, 2/2", p.said())
		require.Equal(t, 1, p.hits)
		require.Equal(t, int64(1), s.Stats().Resent)
		p.set(func() { p.lazy = false })
		after(time.Second)
		require.Zero(t, s.Stats().Unacked)
	})
}

// Batches that got lost on the way, or whose answer did, come again.
func TestAnOutage(t *testing.T) {
	p := &peer{lose: true}
	run(t, p, 0, func(t *testing.T, s *Sink, _ func()) {
		require.Zero(t, s.Stats().LastAnswer)
		s.Take(some(1))
		after(10 * time.Second)
		require.Equal(t, "read: connection reset by peer", s.Stats().LastError)
		require.False(t, s.Status()[0].Up)
		require.Greater(t, s.Status()[0].Failed[reasonConnection], int64(3))
		p.set(func() { p.lose = false })
		after(maxRetryDelay)
		require.Equal(t, 1, p.hits, "once")
		require.Zero(t, s.Stats().Batches)
		require.True(t, s.Status()[0].Up)
		require.Equal(t, int64(1), s.Stats().Accepted)
	})
}

func TestTheBound(t *testing.T) {
	p := &peer{hang: true}
	run(t, p, 2000, func(t *testing.T, s *Sink, stop func()) {
		s.Wait()
		for !s.Stats().Blocked && s.Stats().Unacked < 2000 {
			s.Take(some(1))
		}
		waited := make(chan struct{})
		go func() { s.Wait(); close(waited) }()
		after(time.Minute)
		require.True(t, s.Stats().Blocked)
		require.Equal(t, time.Minute, s.Stats().BlockedFor)
		p.set(func() { p.hang = false })
		<-waited
		require.False(t, s.Stats().Blocked)
		after(15 * time.Second)
		require.Zero(t, s.Stats().Unacked)

		p.set(func() { p.hang = true })
		for s.Stats().Unacked < 2000 {
			s.Take(some(1))
		}
		_, ok := s.Checkpoint()
		require.True(t, ok)
		waited = make(chan struct{})
		go func() { s.Wait(); close(waited) }()
		s.Release()
		<-waited
		s.Wait()
		began := time.Now()
		s.Take(some(1000))
		for i := 0; s.Stats().Unacked < 2000; i++ {
			s.Take(some(1))
		}
		s.Take(some(1))
		_, ok = s.Checkpoint()
		require.False(t, ok, "hits were dropped: they have to be read again")
		s.AddSource("kubelet", 0)
		s.AdvanceWatermark("kubelet", time.Now())
		s.mu.Lock()
		upTo, _ := s.readUpTo()
		require.True(t, upTo.IsZero())
		s.mu.Unlock()
		stop()
		require.LessOrEqual(t, time.Since(began), stopWithin)
	})
}

func TestAnswersThatAreNone(t *testing.T) {
	code, ours := 0, true
	p := &peer{}
	p.refuse = func(m wire.Message) (int, bool) {
		if m.Payload == nil || m.Sequence != 1 {
			return 0, true
		}
		if b, err := new(wire.Decoder).Decode(m.Payload); err == nil && b.Len() == 0 {
			return 0, true
		}
		return code, ours
	}
	f := func(c int, o bool, reason string) {
		t.Helper()
		code, ours = c, o
		p.set(func() { p.taken, p.saved, p.hits = 0, 0, 0 })
		run(t, p, 0, func(t *testing.T, s *Sink, _ func()) {
			s.Take(some(2))
			after(5 * time.Second)
			require.NotZero(t, s.Status()[0].Failed[reason], "%v", s.Status()[0])
			require.Equal(t, reason == reasonConflict, s.Stats().Refused)
			require.Equal(t, reason == reasonRefused, s.Stats().LostHits == 2)
			p.set(func() { code = 0 })
			after(maxRetryAfter)
			want := 2
			if reason == reasonRefused {
				want = 0
			}
			require.Equal(t, want, p.hits)
			s.Take(some(1))
			after(time.Second)
			require.Equal(t, want+1, p.hits, "it goes on")
		})
	}
	f(http.StatusFound, false, reasonRedirect)
	f(http.StatusUnauthorized, true, reasonAuth)
	f(http.StatusConflict, true, reasonConflict)
	f(http.StatusConflict, false, reasonClientError)
	f(http.StatusUnsupportedMediaType, true, reasonVersion)
	f(http.StatusBadRequest, true, reasonRefused)
	f(http.StatusBadRequest, false, reasonClientError)
	f(http.StatusRequestEntityTooLarge, false, reasonClientError)
	f(http.StatusServiceUnavailable, true, reasonBusy)
	f(http.StatusBadGateway, false, reasonServerError)
	f(http.StatusNoContent, false, reasonServerError)
}

func TestASuccessorSaysSo(t *testing.T) {
	f := func() *Sink {
		s, err := New(Config{URL: "http://a:1", Node: "n"}, Options{})
		require.NoError(t, err)
		return s
	}
	first, second := f(), f()
	state, err := first.Export()
	require.NoError(t, err)
	require.NoError(t, second.Import(state))
	w := &sender{s: second}
	m, _, _ := w.nextMessage()
	require.Equal(t, []string{first.instance}, m.EarlierInstances)
	require.NotEqual(t, first.instance, m.Instance)

	// Until one instance is accepted, all that tried are named.
	state, err = second.Export()
	require.NoError(t, err)
	third := f()
	require.NoError(t, third.Import(state))
	require.Equal(t, []string{first.instance, second.instance}, third.predecessors)
	last := third
	for range 30 {
		state, err = last.Export()
		require.NoError(t, err)
		next := f()
		require.NoError(t, next.Import(state))
		require.Equal(t, first.instance, next.predecessors[0])
		require.Equal(t, last.instance, next.predecessors[len(next.predecessors)-1])
		last = next
	}
	require.Len(t, last.predecessors, wire.MaxAfter)
	last.stats.LastAnswer = time.Now()
	state, err = last.Export()
	require.NoError(t, err)
	require.NoError(t, third.Import(state))
	require.Equal(t, []string{last.instance}, third.predecessors)

	require.Error(t, second.Import([]byte("{")))
	require.Error(t, second.Import([]byte(`{"instances":["a b"]}`)))
}

func TestFinalGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		s, err := New(Config{URL: "http://a:1", Node: "n", FinalGoodbye: true}, Options{Transport: p})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.Run(ctx))
		require.True(t, p.bye)
		require.True(t, p.final)
	})
}

func TestValidate(t *testing.T) {
	require.NoError(t, Config{URL: "https://aggregator:9798/"}.Validate())
	f := func(cfg Config, want string) {
		t.Helper()
		require.ErrorContains(t, cfg.Validate(), want)
	}
	f(Config{}, "url: the address is missing")
	f(Config{URL: "aggregator:9798"}, "is not an absolute http or https address")
	f(Config{URL: "http://u:hunter2@a"}, "no credentials in an address")
	f(Config{URL: "http://a?x"}, "remove what follows the path")
	f(Config{URL: "http://a" + wire.Path}, "give the base address")
	f(Config{URL: "http://a", Node: "a b"}, "node: node name")
	_, err := New(Config{URL: "http://a"}, Options{})
	require.ErrorContains(t, err, "set sinks.upstream.node or NODE_NAME")
}

// Lagging streams have watermarks of their own.
func TestLaggingStreams(t *testing.T) {
	p := &peer{}
	run(t, p, 0, func(t *testing.T, s *Sink, _ func()) {
		s.AddSource("kubelet", rules.Lateness)
		s.AddSource("journal", rules.Lateness)
		s.AddSource("loki", rules.Lateness+time.Minute)
		now := time.Now().UTC()
		named := func(name string, ago time.Duration) matcher.LaggingStream {
			return matcher.LaggingStream{Labels: matcher.Labels{"pod": name}, ReadUpTo: now.Add(-ago)}
		}
		s.AdvanceWatermark("kubelet", now, named("a", time.Hour))
		s.AdvanceWatermark("journal", now)
		s.AdvanceWatermark("loki", now, named("b", 2*time.Hour))
		require.Equal(t, now.Add(-2*time.Hour-time.Minute), s.Watermark().UTC())
		s.Take(some(1))
		after(time.Second)
		require.Equal(t, now.Add(-time.Minute), p.watermark)
		require.ElementsMatch(t, []matcher.LaggingStream{named("a", time.Hour), named("b", 2*time.Hour+time.Minute)}, p.lagging)
		s.AdvanceWatermark("kubelet", now)
		s.AdvanceWatermark("loki", now)
		after(5 * time.Second)
		require.Empty(t, p.lagging)
	})
}
