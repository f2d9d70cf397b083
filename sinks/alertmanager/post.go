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
	maxStatus    = 1 << 20         // bytes read of a status: it holds Alertmanager's configuration
	hedgeAfter   = 3 * time.Second // see post
	statusWithin = 2 * time.Second
	// wakesWithin bounds a request to an endpoint that is down. While a request
	// waits, the kernel sends SYN again after 1 s and 3 s: it finds an endpoint that
	// is back within 2 s.
	wakesWithin = 4 * time.Second
	maxRetry    = 30 * time.Second // longest Retry-After that is honoured
)

// client speaks HTTP with one Alertmanager. The requests are made with net/http
// and the models of Alertmanager's API: its generated client hides Retry-After,
// encodes each alert again and dumps credentials if DEBUG is set.
type client struct {
	base    string
	http    httpconfig.Lazy
	timeout time.Duration
	now     func() time.Time
	// lookup returns the addresses of a name. It may be nil.
	lookup func(ctx context.Context, host string) ([]net.IPAddr, error)
}

type answer struct {
	delivery.Answer
	date time.Time // the peer's clock; zero if not given
}

// post sends a list of alerts. If hedge is set, it starts another request on a
// connection of its own each time 3 s pass without an answer, and the first one
// accepted counts: it finds an endpoint that is back while older requests still
// hang. Repeats are harmless.
func (c *client) post(ctx context.Context, body []byte, hedge bool) answer {
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
			cancel() // the other requests end
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

// addresses returns how many addresses of one family the name has: each may be an
// Alertmanager of its own. It returns 0 if that is not known.
func (c *client) addresses(ctx context.Context) int {
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
