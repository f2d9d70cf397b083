//go:build e2e

package alertmanager

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"crowsnest/episodes"
)

// What Prometheus does by default, 60 times as fast: it evaluates every minute,
// sends what is firing each time with an end four minutes ahead, an end for 15
// minutes, and gives up a request after 10 s without trying again.
const (
	plainEvery    = time.Minute / planFaster
	plainEnds     = 4 * plainEvery
	plainResolved = 15 * time.Minute / planFaster
)

// plainClient sends alerts as Prometheus does. It is never restarted.
type plainClient struct {
	*gate
	end func()

	alerts sync.Mutex
	words  map[string]episodes.Episode
}

func newPlainClient(_ *testing.T, s *scene) planClient {
	c := &plainClient{gate: &gate{}, words: map[string]episodes.Episode{}}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, am := range s.ams {
		wg.Go(func() { c.run(ctx, am.URL) })
	}
	c.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		c.CloseIdleConnections()
	})
	return c
}

func (c *plainClient) notify(ep episodes.Episode) {
	c.alerts.Lock()
	defer c.alerts.Unlock()
	c.words[ep.Alert] = ep
}

func (c *plainClient) restart(bool) {}
func (c *plainClient) save()        {}
func (c *plainClient) stop()        { c.end() }

func (c *plainClient) run(ctx context.Context, url string) {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.post(ctx, url)
		case <-ctx.Done():
			return
		}
	}
}

// post sends what is firing or ended lately. It does not retry: the next evaluation sends
// them again.
func (c *plainClient) post(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	body, err := json.Marshal(c.body(time.Now()))
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.RoundTrip(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

func (c *plainClient) body(now time.Time) []map[string]any {
	c.alerts.Lock()
	defer c.alerts.Unlock()
	out := []map[string]any{}
	for _, ep := range c.words {
		ends := now.Add(plainEnds)
		if ep.State == episodes.StateResolved {
			if ends = ep.EndsAt; now.Sub(ends) > plainResolved {
				continue
			}
		}
		out = append(out, map[string]any{"labels": ep.Labels, "startsAt": ep.StartsAt, "endsAt": ends})
	}
	return out
}
