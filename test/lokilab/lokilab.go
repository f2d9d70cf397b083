// Package lokilab has helpers for tests of readers of a real Loki: a proxy that
// closes connections, and a writer with partly late lines that loses none.
package lokilab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Proxy forwards TCP connections and can close all of them. It is safe for
// concurrent use.
type Proxy struct {
	URL string

	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	cuts  int
}

// NewProxy starts a proxy for a server, on loopback. Close ends it.
func NewProxy(url string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "http://" + l.Addr().String(), listener: l, to: strings.TrimPrefix(url, "http://"), conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.pass(c) })
		}
	})
	return p, nil
}

// Close closes all connections and waits for its goroutines.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

// Cut closes every connection in both directions.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for c := range p.conns {
		_ = c.Close()
	}
}

// Cuts returns the number of calls of Cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *Proxy) pass(c net.Conn) {
	defer func() { _ = c.Close() }()
	d, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	p.mu.Lock()
	p.conns[c], p.conns[d] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
		delete(p.conns, d)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(d, c)
		_ = d.Close()
	}()
	_, _ = io.Copy(c, d)
	_ = c.Close()
	<-done
}

// Line is a pushed line that a reader should find.
type Line struct{ Pod, Text string }

// Writer pushes lines of twenty streams, app="a" and pod="p0" to "p19", until
// Loki has accepted them. It is not safe for concurrent use.
type Writer struct {
	URL string
	// Tenant is "" for none. A tenant of VictoriaLogs has a colon, as in "1:2".
	Tenant string
	Rate   int // lines per second
	// Bad is how many of a hundred lines contain "bad"; the others contain
	// "good".
	Bad int
	// Late is the maximum delay of one line in a hundred.
	Late time.Duration

	// Pushed counts lines, Retries failed requests.
	Pushed, Retries int

	client http.Client
}

// streams is the number of streams of a writer.
const streams = 20

// Stream is a part of a push request.
type Stream struct {
	Labels map[string]string `json:"stream"`
	Values [][2]string       `json:"values"`
}

// Add adds a line with a time.
func (s *Stream) Add(at time.Time, text string) {
	s.Values = append(s.Values, [2]string{strconv.FormatInt(at.UnixNano(), 10), text})
}

// Run pushes lines for a while and returns the bad ones. It returns the error
// of ctx, or an error if Loki rejects the lines.
func (w *Writer) Run(ctx context.Context, d time.Duration) ([]Line, error) {
	w.client.Timeout = 10 * time.Second
	defer w.client.CloseIdleConnections()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var bad []Line
	began := time.Now()
	for time.Since(began) < d {
		var batch [streams]Stream
		for want := int(time.Since(began) * time.Duration(w.Rate) / time.Second); w.Pushed < want; w.Pushed++ {
			k := w.Pushed % streams
			pod := fmt.Sprint("p", k)
			batch[k].Labels = map[string]string{"app": "a", "pod": pod}
			at := time.Now()
			if w.Late > 0 && rand.IntN(100) == 0 {
				at = at.Add(-rand.N(w.Late))
			}
			kind := "good"
			if w.Pushed/streams%100 < w.Bad {
				kind = "bad"
			}
			text := fmt.Sprintf("%s %s line %d of a controller, as long as lines are on average in most clusters", w.Tenant, kind, w.Pushed)
			if batch[k].Add(at, text); kind == "bad" {
				bad = append(bad, Line{pod, text})
			}
		}
		var all []Stream
		for _, s := range batch {
			if len(s.Values) > 0 {
				all = append(all, s)
			}
		}
		if len(all) > 0 {
			if err := w.Push(ctx, all); err != nil {
				return bad, err
			}
		}
		select {
		case <-ctx.Done():
			return bad, ctx.Err()
		case <-tick.C:
		}
	}
	return bad, nil
}

// Push pushes until Loki has accepted everything.
func (w *Writer) Push(ctx context.Context, all []Stream) error {
	body, err := json.Marshal(map[string]any{"streams": all})
	if err != nil {
		return err
	}
	for {
		done, err := w.try(ctx, body)
		if done || err != nil {
			return err
		}
		w.Retries++
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

func (w *Writer) try(ctx context.Context, body []byte) (done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/loki/api/v1/push", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if account, project, colon := strings.Cut(w.Tenant, ":"); colon {
		req.Header.Set("AccountID", account)
		req.Header.Set("ProjectID", project)
	} else if w.Tenant != "" {
		req.Header.Set("X-Scope-OrgID", w.Tenant)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // it is tried again
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) //nolint:errcheck // for the message only
	if resp.StatusCode == http.StatusBadRequest {
		return false, fmt.Errorf("loki refuses lines: %s", said)
	}
	return resp.StatusCode == http.StatusNoContent, nil
}
