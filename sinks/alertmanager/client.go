package alertmanager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/alertmanager/api/v2/models"

	"crowsnest/internal/httpconfig"
	"crowsnest/sinks/internal/delivery"
)

const (
	maxStatus    = 1 << 20         // largest number of bytes read of a status, which includes the configuration
	hedgeAfter   = 3 * time.Second // time after which postAlerts starts another request
	statusWithin = 2 * time.Second
	// wakesWithin is the time limit of a request to an endpoint that is down. The kernel repeats the SYN of a waiting
	// request after 1 s and 3 s, so the request reaches the endpoint within 2 s after an outage.
	wakesWithin = 4 * time.Second
	maxRetry    = 30 * time.Second // longest Retry-After that is respected
)

// client sends HTTP requests to one Alertmanager. It uses net/http and the models of Alertmanager's API, but not the
// generated client. That client hides Retry-After, encodes each alert twice, and logs credentials if DEBUG is set.
type client struct {
	base    string
	key     string // configuration key of the address
	http    httpconfig.Lazy
	timeout time.Duration
	now     func() time.Time
	// lookup returns the addresses of a host name. It may be nil.
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

type answer struct {
	delivery.Answer
	date time.Time // time on the peer's clock; zero if the response had no time
}

// postAlerts sends a list of alerts. If hedge is set, it starts another request on a new connection each time 3 s pass
// without an answer. The first request that is accepted counts. This finds an endpoint after an outage even if older
// requests still hang. Sending alerts twice is harmless.
func (c *client) postAlerts(ctx context.Context, body []byte, hedge bool) answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if !hedge {
		return c.postOnce(ctx, body)
	}
	answers := make(chan answer)
	flying := 0
	start := func() {
		flying++
		go func() { answers <- c.postOnce(ctx, body) }()
	}
	start()
	tick := time.NewTicker(hedgeAfter)
	defer tick.Stop()
	var got answer
	for flying > 0 {
		select {
		case got = <-answers:
			flying--
			cancel() // ends the other requests
		case <-tick.C:
			if ctx.Err() == nil {
				start()
			}
			continue
		}
		break
	}
	for range flying {
		if late := <-answers; got.Err != nil && late.Err == nil {
			got = late
		}
	}
	return got
}

func (c *client) postOnce(ctx context.Context, body []byte) answer {
	h, err := c.http.Client()
	if err != nil {
		return answer{Answer: delivery.Answer{Reason: delivery.ReasonConfig, Err: err}}
	}
	a, code, header := delivery.Post(ctx, h, delivery.Target{Address: c.base + "/api/v2/alerts", Key: c.key, MaxWait: maxRetry, Kind: "Alertmanager", IsReceiver: delivery.IsJSONOrEmpty}, body)
	a.Code = code
	date, _ := http.ParseTime(header.Get("Date"))
	return answer{a, date}
}

type response struct {
	code    int
	at      time.Time // time at which the header of the response arrived
	date    time.Time // time on the peer's clock; zero if the response had no time
	body    []byte
	bodyErr error // error of reading the body; nil if it was read to its end or up to the limit
}

// request sends a request to the API and reads at most limit bytes of the body. The answer has
// an error if there was no response in time. The error does not quote the address.
func (c *client) request(ctx context.Context, method, path string, body []byte, limit int64) (response, delivery.Answer) {
	h, err := c.http.Client()
	if err != nil {
		return response{}, delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return response{}, delivery.Answer{Reason: delivery.ReasonConfig, Err: errors.New("the address cannot be used")}
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.Do(req)
	if err != nil {
		return response{}, delivery.ConnectionFailed(err)
	}
	defer resp.Body.Close()
	out := response{code: resp.StatusCode, at: c.now()}
	out.date, _ = http.ParseTime(resp.Header.Get("Date"))
	out.body, out.bodyErr = io.ReadAll(io.LimitReader(resp.Body, limit))
	return out, delivery.Answer{Code: resp.StatusCode}
}

// States of an Alertmanager's cluster.
const (
	clusterDisabled = "disabled" // the member has no peers
	clusterSettling = "settling" // the member waits for the notifications of its peers
)

// status holds the used fields of an Alertmanager's status.
type status struct {
	date time.Time // time on the Alertmanager's clock, truncated to seconds; zero if the response had no time
	// uptime is the start time of the process by its own clock, with millisecond precision. It identifies the process,
	// and does not change when a clock is set. Zero means that the response did not contain it.
	uptime time.Time
	// earliest and latest are bounds of the process's start time by our clock.
	earliest, latest time.Time
	alone, settling  bool     // whether the member has no peers, and whether it waits for their notifications
	members          []string // names of all members of the cluster, including this Alertmanager
}

// status asks the Alertmanager for its status. The answer has an error if there was no response
// in time. Fields that the response lacks are zero.
func (c *client) status(ctx context.Context, within time.Duration) (out status, a delivery.Answer) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	asked := c.now()
	resp, a := c.request(ctx, http.MethodGet, "/api/v2/status", nil, maxStatus)
	out.date = resp.date
	var said models.AlertmanagerStatus
	if a.Err != nil || resp.code != http.StatusOK || json.NewDecoder(bytes.NewReader(resp.body)).Decode(&said) != nil {
		return out, a
	}
	if c := said.Cluster; c != nil && c.Status != nil {
		out.alone, out.settling = *c.Status == clusterDisabled, *c.Status == clusterSettling
		for _, p := range c.Peers {
			if p != nil && p.Name != nil {
				out.members = append(out.members, *p.Name)
			}
		}
	}
	if said.Uptime != nil && !out.date.IsZero() {
		out.uptime = time.Time(*said.Uptime).UTC()
		age := out.date.Sub(out.uptime)
		out.earliest, out.latest = asked.Add(-age-time.Second), resp.at.Add(-age)
	}
	return out, a
}

// countAddresses returns the number of the host name's addresses of one IP family. Each address may be a separate
// Alertmanager. It returns 0 if the number is unknown.
func (c *client) countAddresses(ctx context.Context) int {
	u, err := url.Parse(c.base)
	if err != nil || c.lookup == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	all, err := c.lookup(ctx, "ip", u.Hostname())
	if err != nil {
		return 0
	}
	return maxPerFamily(all)
}
