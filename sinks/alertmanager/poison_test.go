package alertmanager

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/fault"
)

func TestPoison(t *testing.T) {
	bad := func(labels map[string]string) bool { return strings.HasPrefix(labels["alertname"], "Bad") }
	f := func(names ...string) {
		t.Helper()
		inBubble(t, 1, func(b *bench) {
			am := b.ams[0]
			am.Refuse(bad)
			heartbeat := fire("Heartbeat")
			b.notify(heartbeat)
			// A proxy in front may refuse the whole request.
			am.Set(func(w http.ResponseWriter, r *http.Request) bool {
				if posts := am.Posts(); len(posts) > 4000 {
					require.Fail(t, "too many requests")
				}
				return fault.Slow(20*time.Millisecond)(w, r)
			})
			var eps []episodes.Episode
			nBad := 0
			for _, n := range names {
				if ep := fire(n); bad(ep.Labels) {
					nBad++
					eps = append(eps, ep)
				} else {
					eps = append(eps, ep)
				}
			}
			b.notify(eps...)
			b.within(5*time.Second, "the good ones", func() bool { return b.sink.Status()[0].Pending == nBad })
			b.notify(fire("Later"))
			b.within(time.Second, "a later one", func() bool { return am.States("Later") == "firing" })
			from := len(am.Posts())
			const minutes = 15
			for range minutes {
				b.pass(time.Minute)
			}
			for _, p := range am.Posts()[from:] {
				for _, a := range p.Alerts {
					require.True(t, !bad(a.Labels) || len(p.Alerts) == 1, "a refused alert goes alone")
				}
			}
			for _, ep := range eps {
				if !bad(ep.Labels) {
					require.Equal(t, "firing", am.States(ep.Alert))
					require.GreaterOrEqual(t, len(am.Accepted(ep.Alert)), minutes, "repeated all the time")
				}
			}
			require.True(t, b.sink.Status()[0].Up)
			require.Equal(t, nBad, b.logs.byMsg["an alert was refused; other alerts are not delayed"], "each logged once")
			require.Zero(t, b.logs.byMsg["the receiver does not accept alerts; retrying"])
			require.GreaterOrEqual(t, b.sink.Status()[0].Failed[delivery.ReasonRefused], int64(nBad))
		})
	}
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("Good%d", i))
	}
	f("Bad")
	f("Good", "Bad")
	f(append([]string{"Bad1"}, many...)...)
	f(append(append([]string{}, many...), "Bad1", "Bad2")...)
	f("Bad1", "Bad2", "Bad3", "Good1", "Bad4", "Bad5", "Bad6", "Good2", "Bad7")
}
