package stdout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/sinks/internal/delivery"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func episode() episodes.Episode {
	return episodes.Episode{
		Fingerprint: 0xabc, Alert: "VClusterDown", State: episodes.StateFiring,
		Labels: map[string]string{
			"alertname": "VClusterDown", "severity": "critical", "resolves": "clear", "namespace": "team-a", "pod": "vc-0",
		},
		Annotations: map[string]string{
			"summary":     "kube-controller-manager of team-a lost its lease",
			"remediation": "Restart the pod.\n1. kubectl -n team-a delete pod vc-0",
			"runbook_url": "https://example.test/r", "affected": "yes: vcluster 0.22.1", "fixed_in": "0.22.6",
		},
		StartsAt: t0, FiredAt: t0.Add(2 * time.Minute), LastSeen: t0.Add(time.Minute), Count: 3,
		Line: "E1120 leaderelection lost", FirstLine: "E1120 first",
	}
}

func ended() episodes.Episode {
	ep := episode()
	ep.State, ep.Reason, ep.EndsAt = episodes.StateResolved, episodes.ReasonClear, t0.Add(5*time.Minute)
	return ep
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestForms(t *testing.T) {
	f := func(name string, ep episodes.Episode, resolved bool) {
		t.Helper()
		r := newRecord(ep, resolved, t0.Add(6*time.Minute))
		b, err := r.JSON()
		require.NoError(t, err)
		golden(t, name+".json", b)
		golden(t, name+".txt", r.Text(false))
		golden(t, name+".color.txt", r.Text(true))
	}
	f("firing", episode(), false)
	f("resolved", ended(), true)
	f("ended_told_as_firing", ended(), false)
	f("bare", episodes.Episode{Alert: "A", State: episodes.StateFiring, StartsAt: t0}, false)

	hostile := episode()
	hostile.Line = "\x1b[2J\x1b]0;owned\x07line \u202eevil\u2028 <b>&\xff"
	hostile.Labels["namespace"] = "a\nFIRING critical Forged"
	hostile.Annotations["summary"] = "x\r\n\x1b[31mred"
	hostile.Alert = "A\x1b[0m"
	f("hostile", hostile, false)
}

// Whatever an episode holds, its JSON is one line and its text has no control
// characters but line ends.
func FuzzForms(f *testing.F) {
	f.Add("alert", "name", "value\n\x1b[31m")
	f.Fuzz(func(t *testing.T, alert, name, value string) {
		ep := episode()
		ep.Alert, ep.Line = alert, redact.Text(value)
		ep.Labels = map[string]string{name: value, "severity": value}
		ep.Annotations = map[string]string{name: value, "remediation": value, "summary": value}
		r := newRecord(ep, false, t0)
		b, err := r.JSON()
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(b, []byte("\n")))
		var back Record
		require.NoError(t, json.Unmarshal(b, &back))
		text := string(r.Text(false))
		require.True(t, utf8.ValidString(text))
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\r")
		for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			require.True(t, i == 0 || strings.HasPrefix(line, "  "), "a text cannot forge a head line: %q", line)
		}
	})
}

// pipe is a writer that can block or fail.
type pipe struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	gate  chan struct{} // blocks while not nil and open
	err   error
	short int
}

func (p *pipe) set(f func(*pipe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	if gate != nil {
		<-gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		n, _ := p.buf.Write(b[:p.short])
		return n, p.err
	}
	return p.buf.Write(b)
}

// statuses reads back what was written.
func (p *pipe) statuses(t *testing.T) []string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(p.buf.String()), "\n") {
		var r Record
		if json.Unmarshal([]byte(line), &r) == nil {
			out = append(out, r.Status+" "+r.Labels["n"])
		}
	}
	return out
}

func inBubble(t *testing.T, f func(t *testing.T, s *Sink, p *pipe, stop func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{}
		s, err := New(Config{ExternalLabels: map[string]string{"cluster": "c1"}}, p)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		stop := sync.OnceValue(func() error {
			cancel()
			return <-done
		})
		defer func() { _ = stop() }()
		f(t, s, p, stop)
	})
}

func nth(n string, start time.Duration) episodes.Episode {
	return episodes.Episode{
		Fingerprint: episodes.Fingerprint(n[0]), Alert: "A", State: episodes.StateFiring,
		Labels: map[string]string{"alertname": "A", "n": n}, StartsAt: t0.Add(start),
	}
}

func over(ep episodes.Episode) episodes.Episode {
	ep.State, ep.EndsAt = episodes.StateResolved, ep.StartsAt.Add(time.Second)
	return ep
}

func TestTransitionsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sink, p *pipe, stop func() error) {
		a, b := nth("a", 0), nth("b", 1)
		s.Notify([]episodes.Episode{a, over(b)})
		synctest.Wait()
		require.Equal(t, []string{"firing a", "firing b", "resolved b"}, p.statuses(t))
		for range 100 {
			a.Count++
			s.Notify([]episodes.Episode{a, over(b)})
			<-time.After(time.Minute / 10)
		}
		pending := nth("c", 0)
		pending.State = episodes.StatePending
		silent := nth("d", 0)
		silent.Silent = true
		s.Notify([]episodes.Episode{pending, silent, over(a)})
		synctest.Wait()
		require.Equal(t, []string{"firing a", "firing b", "resolved b", "resolved a"}, p.statuses(t))
		require.Contains(t, p.buf.String(), `"cluster":"c1"`)
		s.Notify([]episodes.Episode{nth("e", 0)})
		require.NoError(t, stop())
		require.Equal(t, "firing e", p.statuses(t)[4], "the last message is written")
		st := s.Status()[0]
		require.True(t, st.Up)
		require.Equal(t, int64(5), st.Sent)
		require.Zero(t, st.Pending)
	})
}

// A blocked writer blocks nothing else. Afterwards it gets the newest state of each key.
func TestBlockedWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sink, p *pipe, _ func() error) {
		gate := make(chan struct{})
		p.set(func(p *pipe) { p.gate = gate })
		s.Notify([]episodes.Episode{nth("a", 0)})
		synctest.Wait()
		for i := range 10000 {
			ep := nth("b", time.Duration(i)*time.Second)
			s.Notify([]episodes.Episode{ep, over(ep)})
		}
		s.Notify([]episodes.Episode{nth("c", 0), over(nth("a", 0))})
		require.Equal(t, 3, s.Status()[0].Pending)
		close(gate)
		synctest.Wait()
		require.Equal(t, []string{"firing a", "firing c", "firing b", "resolved a", "resolved b"}, p.statuses(t))
	})
}

func TestBlockedWriterAtStop(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sink, p *pipe, stop func() error) {
		gate := make(chan struct{})
		defer close(gate)
		p.set(func(p *pipe) { p.gate = gate })
		s.Notify([]episodes.Episode{nth("a", 0)})
		synctest.Wait()
		began := time.Now()
		require.EqualError(t, stop(), "sink stdout: the writer blocks, 1 alerts are not written")
		require.Equal(t, delivery.Drain, time.Since(began))
	})
}

func TestWriterFails(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sink, p *pipe, stop func() error) {
		p.set(func(p *pipe) { p.err, p.short = errors.New("no space left"), 10 })
		s.Notify([]episodes.Episode{nth("a", 0)})
		for range 100 { // does not try each time
			s.Notify([]episodes.Episode{nth("a", 0)})
			synctest.Wait()
		}
		st := s.Status()[0]
		require.False(t, st.Up)
		require.Equal(t, "write: no space left", st.Error)
		require.Equal(t, int64(1), st.Failed[reasonWrite])
		<-time.After(time.Minute)
		s.Notify([]episodes.Episode{over(nth("a", 0))})
		p.set(func(p *pipe) { p.err = nil })
		<-time.After(retryAfter)
		synctest.Wait()
		require.Equal(t, []string{"firing a", "resolved a"}, p.statuses(t), "on lines of their own")
		require.True(t, s.Status()[0].Up)
		answers := s.Answers(nth("a", 0).Fingerprint)
		require.Len(t, answers, 3)
		require.Equal(t, "write: no space left", answers[0].Error)
		require.True(t, answers[2].Resolved)
		require.NoError(t, stop())
	})
}

func TestNothingTwiceOverRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Sink, p *pipe, stop func() error) {
		a, b := nth("a", 0), over(nth("b", 0))
		s.Notify([]episodes.Episode{a, b})
		require.NoError(t, stop())
		state, err := s.Export()
		require.NoError(t, err)

		again, err := New(Config{}, p)
		require.NoError(t, err)
		require.Error(t, again.Import([]byte("{")))
		require.NoError(t, again.Import(state))
		again.Notify([]episodes.Episode{a, b})
		again.Notify([]episodes.Episode{over(a)})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, again.Run(ctx))
		require.Equal(t, []string{"firing a", "firing b", "resolved b", "resolved a"}, p.statuses(t))
	})
}

func TestConfig(t *testing.T) {
	_, err := New(Config{Format: "xml"}, io.Discard)
	require.EqualError(t, err, `format: "xml" is not known; use json or text`)
	s, err := New(Config{Name: "out", Format: formatText}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "out", s.Name())
}
