package alertmanager

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/fault"
)

func TestAlertIsToldUntilItsEnd(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		began := time.Now()
		ep := fire("A")
		ep.EventTime = began.Add(-300 * time.Millisecond)
		b.notify(ep)
		for _, am := range b.ams {
			w := am.Accepted("A")
			require.Len(t, w, 1, "at once")
			require.Equal(t, map[string]string{
				"alertname": "A", "severity": "warning", "resolves": "clear", "namespace": "default", "cluster": "c1",
			}, w[0].Alert.Labels)
			require.Equal(t, "something of A", w[0].Alert.Annotations["summary"])
			require.Equal(t, "https://crowsnest.example/episodes/"+ep.Fingerprint.String(), w[0].Alert.GeneratorURL)
			require.True(t, w[0].Alert.StartsAt.Equal(began))
			require.True(t, w[0].Alert.EndsAt.Equal(began.Add(defaultEndsAfter)))
		}
		require.Equal(t, []time.Duration{300 * time.Millisecond}, b.took, "once, not per endpoint")
		require.Equal(t, map[string]string{"alertname": "A", "severity": "warning", "resolves": "clear", "namespace": "default"}, ep.Labels, "not written to")

		b.pass(10 * time.Minute)
		words := b.ams[0].Accepted("A")
		require.Len(t, words, 11, "each minute")
		require.True(t, words[10].Alert.StartsAt.Equal(began), "the start stays")
		require.True(t, words[10].Alert.EndsAt.Equal(words[10].Time.Add(defaultEndsAfter)))

		b.pass(30 * time.Second)
		ended := time.Now()
		b.notify(end(ep))
		b.told("A", "firing resolved")
		words = b.ams[0].Accepted("A")
		require.True(t, words[11].Time.Equal(ended), "at once")
		require.True(t, words[11].Alert.EndsAt.Equal(ended))
		b.pass(2 * time.Hour)
		words = b.ams[0].Accepted("A")
		require.Len(t, words, 12+15, "the end is repeated for 15 m")
		require.False(t, words[len(words)-1].Time.After(ended.Add(15*time.Minute)))
		b.told("A", "firing resolved")

		st := b.sink.Status()
		require.Len(t, st, 2)
		require.Equal(t, "http://am-0:9093", st[0].Endpoint)
		require.True(t, st[0].Up)
		require.Equal(t, int64(27), st[0].Sent)
		require.Zero(t, st[0].Pending)
	})
}

func TestShortAlertLastsMinFiring(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		ep := fire("A")
		b.notify(ep)
		b.pass(time.Second)
		b.notify(end(ep))
		b.pass(58 * time.Second)
		b.told("A", "firing")
		require.Equal(t, 1, b.sink.Status()[0].Pending)
		b.pass(time.Second)
		b.told("A", "firing resolved")
		require.True(t, b.ams[0].Accepted("A")[1].Alert.EndsAt.Equal(ep.StartsAt.Add(time.Second)), "the true end")
	})
}

// A flood of lines of one key is not a flood of requests.
func TestTextChangesAreFolded(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		ep := fire("A")
		for i := range 6000 { // ten minutes
			ep.Count = int64(i)
			ep.Annotations = map[string]string{"count": fmt.Sprint(i)}
			b.notify(ep)
			b.pass(100 * time.Millisecond)
		}
		require.LessOrEqual(t, len(b.ams[0].Posts()), 62)
		words := b.ams[0].Accepted("A")
		require.NotEqual(t, words[0].Alert.Annotations, words[1].Alert.Annotations)
	})
}

// outages are ways of an endpoint to fail.
func outages() map[string]fault.Fault {
	return map[string]fault.Fault{
		"reset":         fault.Reset,
		"hang":          fault.Hang,
		"too slow":      fault.Slow(11 * time.Second),
		"500":           fault.Status(500),
		"503":           fault.Status(503, "Retry-After", "2"),
		"429":           fault.Status(429, "Retry-After", "4"),
		"401":           fault.Status(401),
		"403":           fault.Status(403),
		"404":           fault.Status(404),
		"redirect":      fault.Status(307, "Location", "http://elsewhere/api/v2/alerts"),
		"400 for all":   fault.Status(400),
		"422 for all":   fault.Status(422),
		"413 for all":   fault.Status(413),
		"100 is not ok": fault.Status(599),
	}
}

// TestOutage: after a fault of any kind and length, each alert that was active
// without an Alertmanager is notified within 5 s of its recovery; short ones as
// firing and, min_firing later, as resolved.
func TestOutage(t *testing.T) {
	for name, fault := range outages() {
		lasts := 3 * time.Minute
		if name == "hang" {
			lasts = 80 * time.Minute
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(b *bench) {
				am := b.ams[0]
				before := fire("Before")
				b.notify(before)
				b.pass(90 * time.Second)

				am.Set(fault)
				var blips []string
				for i := range 20 {
					ep := fire(fmt.Sprintf("Blip%d", i))
					blips = append(blips, ep.Alert)
					b.notify(ep)
					b.pass(5 * time.Second)
					b.notify(end(ep))
				}
				stays := fire("Stays")
				b.notify(stays, end(before))
				b.pass(lasts)
				require.False(t, b.sink.Status()[0].Up)
				require.NotEmpty(t, b.sink.Status()[0].Error)
				require.Equal(t, 22, b.sink.Status()[0].Pending)
				require.Equal(t, 1, b.logs.byMsg["the receiver does not accept alerts; retrying"], "logged once")

				am.Set(nil)
				b.within(5*time.Second, "all notified", func() bool {
					for _, name := range blips {
						if am.States(name) != "firing" {
							return false
						}
					}
					return am.States("Stays") == "firing" && am.States("Before") == "firing resolved"
				})
				require.True(t, b.sink.Status()[0].Up)
				b.pass(59 * time.Second)
				for _, name := range blips {
					require.Equal(t, "firing", am.States(name))
				}
				b.pass(6 * time.Second)
				for _, name := range blips {
					require.Equal(t, "firing resolved", am.States(name))
				}
				require.Equal(t, "firing", am.States("Stays"))
				require.Empty(t, am.NeverNotified())
				require.Equal(t, 1, b.logs.byMsg["the receiver accepts alerts again"])
			})
		})
	}
}

// TestOneBadEndpoint: an Alertmanager that fails changes nothing for another.
func TestOneBadEndpoint(t *testing.T) {
	for name, fault := range outages() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(b *bench) {
				b.ams[0].Set(fault)
				const alerts = 4
				for i := range alerts {
					name := fmt.Sprintf("A%d", i)
					ep := fire(name)
					b.notify(ep)
					require.Len(t, b.ams[1].Accepted(name), 1, "at once")
					b.pass(time.Minute)
					b.notify(end(ep))
					require.Equal(t, "firing resolved", b.ams[1].States(name), "at once")
				}
				require.Len(t, b.took, alerts)
				for _, d := range b.took {
					require.Zero(t, d)
				}
				require.True(t, b.sink.Status()[1].Up)
			})
		})
	}
}

// TestRetryIsPaced: an endpoint that is down is asked every 2 s whether it is back, in
// small requests, and not more often than it says. One that cannot be reached is sent no
// alerts: it might accept old ones when it wakes up.
func TestRetryIsPaced(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		am.Set(fault.Status(503, "Retry-After", "20"))
		var eps []episodes.Episode
		for i := range 500 {
			eps = append(eps, fire(fmt.Sprintf("A%d", i)))
		}
		b.notify(eps...)
		b.pass(10 * time.Minute)
		posts := am.Posts()
		require.LessOrEqual(t, len(posts), 31)
		require.Len(t, posts[0].Alerts, 256)
		require.LessOrEqual(t, len(posts[1].Alerts), 16)

		am.Set(fault.Status(503, "Retry-After", "86400"))
		b.pass(time.Hour)
		var asked atomic.Int64
		am.Set(func(w http.ResponseWriter, r *http.Request) bool {
			asked.Add(1)
			return fault.Reset(w, r)
		})
		b.pass(time.Minute)
		from, sent := asked.Load(), len(am.Posts())
		b.pass(10 * time.Minute)
		require.InDelta(t, 400, asked.Load()-from, 100)
		require.Len(t, am.Posts(), sent)
		am.Set(nil)
		b.within(5*time.Second, "500 alerts", func() bool { return b.sink.Status()[0].Pending == 0 })
	})
}

// TestHungRequestsDoNotPile: while an endpoint answers but accepts nothing, at most a few
// small requests are under way.
func TestHungRequestsDoNotPile(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		var mu sync.Mutex
		flying, most := 0, 0
		b.ams[0].Set(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			mu.Lock()
			flying++
			most = max(most, flying)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				flying--
			}()
			return fault.Hang(w, r)
		})
		b.notify(fire("A"))
		for range 3600 {
			b.pass(time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		require.LessOrEqual(t, most, 4)
		require.GreaterOrEqual(t, most, 3)
	})
}

// A refused alert is sent again, and notified once it is accepted.
func TestPoisonIsCured(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		am.Refuse(func(labels map[string]string) bool { return labels["alertname"] == "Bad" })
		bad, shortLived := fire("Bad"), fire("Bad")
		shortLived.Fingerprint++
		b.notify(fire("Heartbeat"), bad, shortLived)
		b.pass(time.Second)
		b.notify(end(shortLived))
		require.NotEmpty(t, b.answer(bad).Error)
		require.Equal(t, 400, b.answer(bad).Code)
		b.pass(time.Hour)
		require.Equal(t, 1, b.sink.Status()[0].Pending, "the one that ended is dropped")
		am.Refuse(nil)
		b.within(5*time.Minute, "notified", func() bool { return am.States("Bad") == "firing" })
		require.Empty(t, b.answer(bad).Error)
	})
}

// A refused alert that is tried again alone does not look like an endpoint that
// refuses everything.
func TestPoisonAlone(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.ams[0].Refuse(func(labels map[string]string) bool { return labels["alertname"] == "Bad" })
		other := fire("Other")
		b.notify(other, fire("Bad"))
		b.pass(2 * time.Minute)
		b.notify(end(other))
		b.pass(30 * time.Minute)
		from := len(b.ams[0].Posts())
		b.pass(time.Hour)
		require.LessOrEqual(t, len(b.ams[0].Posts())-from, 12, "each 5 m")
		require.True(t, b.sink.Status()[0].Up)
		require.Zero(t, b.logs.byMsg["the receiver does not accept alerts; retrying"])
	})
}

// Alerts that are known to be refused are not sent.
func TestInvalidIsNotSent(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		noName, badLabel := fire("NoName"), fire("BadLabel")
		delete(noName.Labels, "alertname")
		badLabel.Labels["a-b"] = "x"
		b.notify(noName, badLabel, fire("Good"))
		b.told("Good", "firing")
		require.Len(t, b.ams[0].Posts(), 1)
		st := b.sink.Status()[0]
		require.True(t, st.Up)
		require.Equal(t, int64(2), st.Failed[delivery.ReasonInvalid])
		require.Contains(t, b.answer(badLabel).Error, `"a-b" is not a label name`)
	})
}

func TestBatches(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		var eps []episodes.Episode
		for i := range 1000 {
			ep := fire(fmt.Sprintf("A%d", i))
			if i >= 500 {
				for j := range 5 {
					ep.Annotations[fmt.Sprint("text", j)] = strings.Repeat("x", delivery.MaxAnnotation)
				}
			}
			eps = append(eps, ep)
		}
		b.notify(eps...)
		posts := b.ams[0].Posts()
		total, bySize := 0, 0
		for _, p := range posts {
			require.LessOrEqual(t, len(p.Alerts), maxBatch)
			require.LessOrEqual(t, p.Size, maxBody)
			total += len(p.Alerts)
			if len(p.Alerts) < 120 && p.Size > maxBody*9/10 {
				bySize++
			}
		}
		require.Equal(t, 1000, total)
		require.NotZero(t, bySize)
		require.Less(t, len(posts), 12)
	})
}

// TestBothBackTogether: after an outage of both, each gets what it missed at the same time.
// Otherwise the one that has no end yet notifies the alert once more.
func TestBothBackTogether(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		ep := fire("Ends")
		b.notify(ep)
		b.pass(90 * time.Second)
		for _, am := range b.ams {
			am.Set(fault.Reset)
			b.pass(710 * time.Millisecond) // their tries are at different times
		}
		b.notify(end(ep))
		b.pass(time.Minute)
		for _, am := range b.ams {
			am.Set(nil)
		}
		ended := func(i int) bool { return b.ams[i].States("Ends") == "firing resolved" }
		b.within(5*time.Second, "one is back", func() bool { return ended(0) || ended(1) })
		b.within(50*time.Millisecond, "and the other one", func() bool { return ended(0) && ended(1) })
	})
}
