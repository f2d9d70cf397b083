package alertmanager

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"crowsnest/httpconfig"
	"crowsnest/sinks/internal/delivery"
)

const (
	maxStatus    = 1 << 20         // number of bytes that are read of a status, which contains Alertmanager's configuration
	hedgeAfter   = 3 * time.Second // see postAlerts
	statusWithin = 2 * time.Second
	// wakesWithin is the time limit of a request to an endpoint that is down. While a request
	// waits, the kernel sends SYN again after 1 s and 3 s, so it finds an endpoint within 2 s
	// after an outage.
	wakesWithin = 4 * time.Second
	maxRetry    = 30 * time.Second // longest Retry-After that is respected
)

// client sends HTTP requests to one Alertmanager. It uses net/http and the models of
// Alertmanager's API. The API's generated client hides Retry-After, encodes each alert twice,
// and dumps credentials if DEBUG is set.
type client struct {
	base    string
	http    httpconfig.Lazy
	timeout time.Duration
	now     func() time.Time
	// lookup returns the addresses of a host name. It may be nil.
	lookup func(ctx context.Context, host string) ([]net.IPAddr, error)
}

type answer struct {
	delivery.Answer
	date time.Time // time on the peer's clock; zero if the response did not give it
}

// postAlerts sends a list of alerts. If hedge is set, it starts another request on a new
// connection each time 3 s pass without an answer. The first request that is accepted counts.
// This finds an endpoint after an outage even if older requests still hang. Sending alerts
// twice is harmless.
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
			cancel() // so that the other requests end
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
	a, code, header := delivery.Post(ctx, h, delivery.Target{Address: c.base + "/api/v2/alerts", Key: "urls", MaxWait: maxRetry, Kind: "Alertmanager", Own: delivery.IsJSONOrEmpty}, body)
	a.Code = code
	date, _ := http.ParseTime(header.Get("Date"))
	return answer{a, date}
}

// countAddresses returns the number of addresses of one IP family that the host name has. Each
// may be a separate Alertmanager. It returns 0 if the number is unknown.
func (c *client) countAddresses(ctx context.Context) int {
	u, err := url.Parse(c.base)
	if err != nil || c.lookup == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	all, err := c.lookup(ctx, u.Hostname())
	if err != nil {
		return 0
	}
	four := 0
	for _, a := range all {
		if a.IP.To4() != nil {
			four++
		}
	}
	return max(four, len(all)-four)
}
