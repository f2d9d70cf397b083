package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/agent/wire"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// pipe is a pipeline that records its calls.
type pipe struct {
	sources.Pipeline
	set *rules.Set

	mu         sync.Mutex
	cut        sync.RWMutex
	taken      []uint64 // IDs
	joined     []string
	added      int // calls of AddMember
	watermarks map[string]time.Time
	lagging    []matcher.LaggingStream // of the newest watermark
}

func newPipe() *pipe {
	r := &rules.Rule{Alert: "A", Hash: "1", Mode: rules.ModeOn, Count: 1, Steps: make([]rules.Step, 1), CapturedNames: []string{"pod"}}
	return &pipe{set: &rules.Set{Rules: []*rules.Rule{r}}, watermarks: map[string]time.Time{}}
}

func (p *pipe) Ingest(find func(*rules.Set) []matcher.Hit, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	found := find(p.set)
	p.mu.Lock()
	for _, h := range found {
		p.taken = append(p.taken, h.ID)
	}
	p.mu.Unlock()
	if commit != nil {
		commit()
	}
}

func (p *pipe) Rules() *rules.Set { return p.set }

func (p *pipe) AdvanceWatermark(member string, t time.Time, lagging ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermarks[member], p.lagging = t, lagging
}

func (p *pipe) AddMember(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.added++
	if !slices.Contains(p.joined, member) {
		p.joined = append(p.joined, member)
	}
}

func (p *pipe) RemoveMember(member string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = slices.DeleteFunc(p.joined, func(s string) bool { return s == member })
}

// bench is a source with a pipeline and a clock of the test.
type bench struct {
	t   *testing.T
	now time.Time
	s   *Source
	p   *pipe
}

func newBench(t *testing.T, cfg Config) *bench {
	b := &bench{t: t, now: start, p: newPipe()}
	cfg.Clock = func() time.Time { return b.now }
	b.s = New(cfg)
	return b
}

func (b *bench) payload(ids ...uint64) []byte {
	var out wire.Builder
	for _, id := range ids {
		hit := hitOf(b.p.set.Rules[0], id)
		out.Add(&hit)
	}
	return out.Seal()
}

func hitOf(r *rules.Rule, id uint64) matcher.Hit {
	return matcher.Hit{Rule: r, Time: start, Values: []string{"p"}, Labels: matcher.Labels{"pod": "p"}, Line: "line", ID: id}
}

func (b *bench) post(body []byte, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, wire.Path, bytes.NewReader(body))
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	b.s.Handler(b.p).ServeHTTP(w, r)
	return w
}

// say sends a message and returns the answer as text.
func (b *bench) say(m wire.Message) string {
	b.t.Helper()
	if m.Node == "" {
		m.Node = "n1"
	}
	if m.Instance == "" {
		m.Instance = "i1"
	}
	if m.SentAt.IsZero() {
		m.SentAt = b.now
	}
	w := b.post(m.Append(nil))
	if w.Code != http.StatusOK {
		return fmt.Sprintf("%d %s", w.Code, strings.TrimSpace(w.Body.String()))
	}
	var a wire.Answer
	require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &a))
	return fmt.Sprintf("taken %d saved %d", a.AcceptedSequence, a.SavedSequence)
}

// save simulates a save of the state.
func (b *bench) save() json.RawMessage {
	b.p.cut.Lock()
	pos := b.s.Positions()
	b.p.cut.Unlock()
	b.s.ConfirmSaved()
	return pos
}

func at(d time.Duration) time.Time { return start.Add(d) }

func TestBatchesAreTakenOnceAndInOrder(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{OldestSequence: 1}))
	require.Equal(t, []string{"agents/n1"}, b.p.joined)
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Sequence: 1, OldestSequence: 1, Payload: b.payload(1, 2), Watermark: at(time.Second)}))
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Sequence: 1, OldestSequence: 1, Payload: b.payload(1, 2), Watermark: at(time.Second)}), "once more")
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Sequence: 3, OldestSequence: 1, Payload: b.payload(4), Watermark: at(3 * time.Second)}), "2 comes first")
	require.Equal(t, at(time.Second), b.p.watermarks["agents/n1"], "a batch that was not accepted does not advance the watermark")
	require.Equal(t, "taken 2 saved 0", b.say(wire.Message{Sequence: 2, OldestSequence: 1, Payload: b.payload(3)}))
	require.Equal(t, "taken 2 saved 0", b.say(wire.Message{Sequence: 3, OldestSequence: 1, Watermark: at(4 * time.Second)}), "3 is still missing")
	require.Equal(t, at(time.Second), b.p.watermarks["agents/n1"])
	b.save()
	require.Equal(t, "taken 3 saved 2", b.say(wire.Message{Sequence: 3, OldestSequence: 1, Payload: b.payload(4), Watermark: at(3 * time.Second)}))
	require.Equal(t, "taken 3 saved 2", b.say(wire.Message{Sequence: 3, OldestSequence: 3, Watermark: at(5 * time.Second)}))
	require.Equal(t, at(5*time.Second), b.p.watermarks["agents/n1"])
	require.Equal(t, []uint64{1, 2, 3, 4}, b.p.taken)
	st := b.s.Stats()
	require.Equal(t, int64(1), st.Repeats)
	require.Equal(t, int64(4), st.Hits)
	require.Empty(t, b.s.Status().Losses)
}

func TestARestartOfTheAggregator(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{Sequence: 1, OldestSequence: 1, Payload: b.payload(1)})
	pos := b.save()
	b.say(wire.Message{Sequence: 2, OldestSequence: 1, Payload: b.payload(2)})

	b.s = New(b.s.cfg)
	require.Equal(t, []string{"agents/?"}, b.s.Members(), "without a saved state, agents may be unknown")
	require.NoError(t, b.s.Restore(pos))
	require.Equal(t, []string{"agents/n1"}, b.s.Members())
	require.False(t, b.s.Status().Members["agents/n1"].Up)
	require.Contains(t, b.say(wire.Message{Instance: "i2", OldestSequence: 1}), "409", "the other agent may still run")
	require.Equal(t, "taken 1 saved 1", b.say(wire.Message{Sequence: 3, OldestSequence: 2, Payload: b.payload(3)}), "2 again")
	require.Equal(t, "taken 2 saved 1", b.say(wire.Message{Sequence: 2, OldestSequence: 2, Payload: b.payload(2)}))
	require.Equal(t, "taken 3 saved 1", b.say(wire.Message{Sequence: 3, OldestSequence: 2, Payload: b.payload(3)}))
	require.True(t, b.s.Status().Members["agents/n1"].Up)
	require.Empty(t, b.s.Status().Losses)

	// The state is lost or too old: the batches that the agent still has are accepted.
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(nil))
	require.Equal(t, "taken 7 saved 0", b.say(wire.Message{Sequence: 9, OldestSequence: 8, Payload: b.payload(9)}))
	require.Equal(t, sources.Loss{Count: 1, Time: start, Path: "n1"}, b.s.Status().Losses[lossGap])
	require.Equal(t, "taken 8 saved 0", b.say(wire.Message{Sequence: 8, OldestSequence: 8, Payload: b.payload(8)}))
	require.Equal(t, "taken 9 saved 0", b.say(wire.Message{Sequence: 9, OldestSequence: 8, Payload: b.payload(9)}))
	require.Equal(t, int64(1), b.s.Status().Losses[lossGap].Count)
	pos = b.save()
	b.now = at(15 * time.Second)
	again := New(b.s.cfg)
	require.NoError(t, again.Restore(pos))
	require.Equal(t, int64(1), again.Status().Losses[lossGap].Count)

	// A restart keeps the time of the last message, and waits for the agent again.
	b.s = again
	b.now = at(2 * time.Hour)
	again = New(b.s.cfg)
	require.NoError(t, again.Restore(pos))
	b.s = again
	(&handler{s: b.s, p: b.p}).removeExpired(b.now, b.now.Add(time.Minute))
	require.Equal(t, []string{"agents/n1"}, b.s.Members())
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{Instance: "i2", OldestSequence: 1}))
}

func TestOneAgentPerNode(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{Sequence: 1, OldestSequence: 1, Payload: b.payload(1)})
	other := wire.Message{Instance: "i2", Sequence: 1, OldestSequence: 1, Payload: b.payload(2)}
	b.now = at(14 * time.Second)
	require.Equal(t, "409 node n1 has an agent already, last heard from 14s ago; give each its own sinks.upstream.node", b.say(other))
	require.Equal(t, b.now, b.s.Status().Members["agents/n1"].RefusedAt)
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Sequence: 1, OldestSequence: 1}))
	b.now = at(28 * time.Second)
	require.Contains(t, b.say(other), "409")

	// A process that continues from the same saved state takes over at once.
	other.EarlierInstances = []string{"i0", "i1"}
	require.Equal(t, "taken 1 saved 0", b.say(other))
	require.Contains(t, b.say(wire.Message{Sequence: 2, OldestSequence: 1, Payload: b.payload(3)}), "409", "the older one")

	// So does any other process after a goodbye or after silence.
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Instance: "i2", Sequence: 1, OldestSequence: 2, Goodbye: true}))
	require.Equal(t, "its agent stopped and has not come back", b.s.Status().Members["agents/n1"].Error)
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{Instance: "i3", OldestSequence: 1}))
	b.now = b.now.Add(15 * time.Second)
	require.Equal(t, "its agent was last heard from 15s ago", b.s.Status().Members["agents/n1"].Error)
	require.Equal(t, "taken 0 saved 0", b.say(wire.Message{Instance: "i4", OldestSequence: 1}))
	require.Equal(t, []uint64{1, 2}, b.p.taken)
}

// The sequence numbers of one instance do not apply to the next one.
func TestSavedBelongsToAnInstance(t *testing.T) {
	b := newBench(t, Config{})
	for seq := uint64(1); seq <= 5; seq++ {
		b.say(wire.Message{Sequence: seq, OldestSequence: 1, Payload: b.payload(seq)})
	}
	b.s.Positions() // they are being written
	b.say(wire.Message{Sequence: 5, OldestSequence: 1, Goodbye: true})
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Instance: "i2", Sequence: 1, OldestSequence: 1, Payload: b.payload(6)}))
	b.s.ConfirmSaved()
	require.Equal(t, "taken 1 saved 0", b.say(wire.Message{Instance: "i2", Sequence: 1, OldestSequence: 1}))
	b.save()
	require.Equal(t, "taken 1 saved 1", b.say(wire.Message{Instance: "i2", Sequence: 1, OldestSequence: 1}))
}

func TestNodesAreForgotten(t *testing.T) {
	token := filepath.Join(t.TempDir(), "admin")
	require.NoError(t, os.WriteFile(token, []byte("admin"), 0o600))
	b := newBench(t, Config{AdminTokenFile: token})
	h := &handler{s: b.s, p: b.p}
	b.say(wire.Message{OldestSequence: 1})
	b.say(wire.Message{Node: "n2", OldestSequence: 1})
	b.say(wire.Message{Node: "n3", OldestSequence: 1})
	require.Len(t, b.p.joined, 3)
	b.say(wire.Message{Node: "n2", OldestSequence: 1, Goodbye: true, Final: true})
	require.Equal(t, []string{"agents/n1", "agents/n3"}, b.p.joined)
	b.now = at(30 * time.Minute)
	b.say(wire.Message{Node: "n3", OldestSequence: 1})
	h.removeExpired(start, at(59*time.Minute))
	require.Len(t, b.p.joined, 2)
	h.removeExpired(start, at(time.Hour))
	require.Equal(t, []string{"agents/n3"}, b.p.joined)
	require.Equal(t, []string{"agents/n3"}, b.s.Members())
	require.Equal(t, int64(2), b.s.Stats().Forgotten)

	remove := func(node string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodDelete, wire.NodePath+node, nil)
		r.Header.Set("Authorization", "Bearer admin")
		b.s.Handler(b.p).ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusNotFound, remove("n1"))
	require.Equal(t, http.StatusNoContent, remove("n3"))
	require.Empty(t, b.p.joined)
	b.say(wire.Message{Node: "n3", OldestSequence: 1})
	require.Equal(t, []string{"agents/n3"}, b.p.joined, "it comes back")
}

func TestAStartWithoutStateWaitsForAgents(t *testing.T) {
	b := newBench(t, Config{})
	h := &handler{s: b.s, p: b.p}
	for _, member := range b.s.Members() {
		b.p.AddMember(member)
	}
	h.removeExpired(start, at(14*time.Second))
	require.Equal(t, []string{"agents/?"}, b.p.joined)
	h.removeExpired(start, at(15*time.Second))
	require.Empty(t, b.p.joined)
	require.Empty(t, b.s.Members())
}

func TestClockSkewIsShown(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{OldestSequence: 1, SentAt: at(-5 * time.Minute), Watermark: at(-5 * time.Minute)})
	p := b.s.Status().Members["agents/n1"]
	require.True(t, p.Up)
	require.Equal(t, -5*time.Minute, p.Skew)
	require.Equal(t, "its clock is 5m0s behind, which is corrected", p.Error)
}

func TestRefusals(t *testing.T) {
	b := newBench(t, Config{MaxAgents: 1})
	good := (&wire.Message{Node: "n1", Instance: "i1", OldestSequence: 1}).Append(nil)
	f := func(body []byte, code int, reason string, change ...func(*http.Request)) {
		t.Helper()
		before := b.s.Stats().RefusedMessages[reason]
		w := b.post(body, change...)
		require.Equal(t, code, w.Code, w.Body)
		require.Equal(t, "1", w.Header().Get(wire.Header))
		require.Equal(t, before+1, b.s.Stats().RefusedMessages[reason])
	}
	f(nil, http.StatusBadRequest, refusedMalformed)
	f([]byte("{\"v\":2}\n"), http.StatusUnsupportedMediaType, refusedMalformed)
	f(make([]byte, wire.MaxMessage+1), http.StatusRequestEntityTooLarge, refusedSize)
	f(good, http.StatusRequestEntityTooLarge, refusedSize, func(r *http.Request) { r.ContentLength = -1 })
	f(good, http.StatusRequestTimeout, refusedMalformed, func(r *http.Request) { r.ContentLength += 5 })
	m := wire.Message{Node: "n1", Instance: "i1", Sequence: 1, OldestSequence: 1, Payload: []byte("no batch")}
	f(m.Append(nil), http.StatusBadRequest, refusedMalformed)
	m.Payload = make([]byte, wire.MaxPayload)
	f(m.Append(nil), http.StatusBadRequest, refusedMalformed)
	m.Payload = wire.EmptyBatch()
	require.Equal(t, http.StatusOK, b.post(m.Append(nil)).Code, "an empty batch can replace it")
	f((&wire.Message{Node: "n2", Instance: "i1", OldestSequence: 1}).Append(nil), http.StatusTooManyRequests, refusedCount)

	r := httptest.NewRequest(http.MethodPut, wire.Path, nil)
	w := httptest.NewRecorder()
	b.s.Handler(b.p).ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// Every answer names the process, so that agents notice two of them.
func TestProcessIsNamed(t *testing.T) {
	b := newBench(t, Config{})
	name := b.post(nil).Header().Get(wire.ProcessHeader)
	require.NotEmpty(t, name)
	require.Equal(t, name, b.post(nil).Header().Get(wire.ProcessHeader))
	b.s = New(b.s.cfg)
	require.NotEqual(t, name, b.post(nil).Header().Get(wire.ProcessHeader))
}

func TestBearerToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	b := newBench(t, Config{BearerTokenFile: file})
	good := (&wire.Message{Node: "n1", Instance: "i1", OldestSequence: 1}).Append(nil)
	f := func(header string, code int) {
		t.Helper()
		w := b.post(good, func(r *http.Request) { r.Header.Set("Authorization", header) })
		require.Equal(t, code, w.Code, w.Body)
		require.NotContains(t, w.Body.String(), "one")
	}
	f("Bearer one", http.StatusInternalServerError) // there is no file
	require.NoError(t, os.WriteFile(file, []byte("one\n"), 0o600))
	f("Bearer one", http.StatusOK)
	f("bearer one", http.StatusOK)
	f("", http.StatusUnauthorized)
	f("Bearer", http.StatusUnauthorized)
	f("Bearer two", http.StatusUnauthorized)
	f("Basic one", http.StatusUnauthorized)
	require.NoError(t, os.WriteFile(file, []byte("two\n"), 0o600))
	f("Bearer one", http.StatusUnauthorized)
	f("Bearer two", http.StatusOK)
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	f("Bearer ", http.StatusInternalServerError)
}

func TestRestoreRefusesNonsense(t *testing.T) {
	f := func(text string) {
		t.Helper()
		s := New(Config{MaxAgents: 1})
		require.Error(t, s.Restore(json.RawMessage(text)))
		require.Equal(t, []string{"agents/?"}, s.Members())
	}
	f(`{`)
	f(`{"v":2}`)
	f(`{"v":1,"nodes":{"a/b":{"instance":"i"}}}`)
	f(`{"v":1,"nodes":{"a":{"instance":""}}}`)
}

func TestValidate(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	f := func(cfg Config, want string) {
		t.Helper()
		require.ErrorContains(t, cfg.Validate(), want)
	}
	f(Config{ListenAddress: "9798"}, `listen_address: "9798" is not an address`)
	f(Config{ForgetAfter: time.Second}, "forget_after: 1s is less than silent_after; use at least ")
}

// The listener serves, reports its errors, and ends with its context.
func TestRun(t *testing.T) {
	busy := httptest.NewServer(http.NotFoundHandler())
	defer busy.Close()
	s := New(Config{ListenAddress: busy.Listener.Addr().String()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, newPipe()) }()
	require.Eventually(t, func() bool { return strings.Contains(s.Status().Error, "address already in use") }, 10*time.Second, time.Millisecond)
	require.False(t, s.Status().Opened)
	busy.Close()
	require.Eventually(t, func() bool { return s.Status().Up }, 10*time.Second, 10*time.Millisecond)
	m := wire.Message{Node: "n1", Instance: "i1", OldestSequence: 1, SentAt: time.Now()}
	resp, err := http.Post("http://"+busy.Listener.Addr().String()+wire.Path, wire.ContentType, bytes.NewReader(m.Append(nil)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, s.Status().Members, "agents/n1")
	cancel()
	require.NoError(t, <-done)
	require.False(t, s.Status().Up)
	http.DefaultClient.CloseIdleConnections()
}

// Lagging streams come with the watermark, and their times are corrected as those of the
// lines are.
func TestLaggingStreamsOfANode(t *testing.T) {
	b := newBench(t, Config{})
	lagging := matcher.LaggingStream{Labels: matcher.Labels{"namespace": "a"}, UnknownLabels: []string{"filename"}, ReadUpTo: at(50 * time.Second)}
	b.say(wire.Message{OldestSequence: 1, SentAt: at(time.Minute), Watermark: at(time.Minute), Lagging: []matcher.LaggingStream{lagging}})
	require.Equal(t, start, b.p.watermarks["agents/n1"], "its clock is a minute ahead")
	lagging.ReadUpTo = at(-10 * time.Second)
	require.Equal(t, []matcher.LaggingStream{lagging}, b.p.lagging)
	require.Equal(t, b.p.lagging, b.s.Status().Members["agents/n1"].Lagging)
	b.say(wire.Message{OldestSequence: 1, SentAt: at(time.Minute), Watermark: at(time.Minute)})
	require.Empty(t, b.p.lagging)
	require.Empty(t, b.s.Status().Members["agents/n1"].Lagging)
}
