package alertmanager

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/fakeam"
	"crowsnest/test/fault"
)

// After a restart of an Alertmanager everything is sent again at once, and an
// end is not sent to one that does not know the beginning.
func TestAlertmanagerRestarts(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		stays, ends, endsLater := fire("Stays"), fire("Ends"), fire("EndsLater")
		b.notify(stays, ends, endsLater)
		b.pass(10*time.Minute + 10*time.Second)

		am.Set(fault.Reset)
		b.notify(end(ends), fire("New"))
		b.pass(20 * time.Second)
		am.Set(nil)
		am.Restart()
		from := len(am.Accepted("Stays"))
		b.within(5*time.Second, "all sent again", func() bool {
			return len(am.Accepted("Stays")) > from && am.States("New") == "firing" && len(am.Accepted("Ends")) >= from
		})
		require.Equal(t, "firing", am.States("Ends"), "the beginning first")
		b.pass(61 * time.Second)
		require.Equal(t, "firing resolved", am.States("Ends"))
		require.Empty(t, am.NeverNotified())
		require.Len(t, b.took, 4, "a repeat is not a detection")

		// It restarts so fast that no request fails.
		b.pass(10 * time.Minute)
		am.Restart()
		b.pass(time.Second)
		b.notify(end(endsLater))
		require.Equal(t, "firing", am.States("EndsLater"), "the new one does not know it")
		b.pass(time.Minute)
		require.Equal(t, "firing resolved", am.States("EndsLater"))
		require.NotContains(t, am.NeverNotified(), "EndsLater")

		// It restarts while nothing ends.
		b.pass(10 * time.Minute)
		am.Set(fault.Reset)
		b.notify(fire("New2"))
		b.pass(5 * time.Second)
		am.Restart()
		am.Set(nil)
		from = len(am.Accepted("Stays"))
		b.within(5*time.Second, "all sent again", func() bool { return len(am.Accepted("Stays")) > from })

		// A peer whose clock is wrong does not look like one that restarts.
		b.pass(2 * time.Minute)
		am.SetSkew(time.Hour)
		b.notify(end(stays))
		require.Equal(t, "firing resolved", am.States("Stays"))
		require.InDelta(t, 3600, b.sink.Status()[0].ClockSkew, 1)
	})
}

func TestShutdown(t *testing.T) {
	for name, fault := range outages() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bench) {
				b.notify(fire("Before"))
				b.ams[0].Set(fault)
				b.ams[1].Set(fault)
				b.pass(90 * time.Second)
				b.sink.Notify([]episodes.Episode{fire("Last")})
				began := time.Now()
				b.stop()
				require.LessOrEqual(t, time.Since(began), 4*time.Second)
				require.Equal(t, "firing", b.ams[2].States("Last"))
			})
		})
	}
}

// An endpoint that just came back is sent changes in the last try.
func TestShutdownTriesOnceMore(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		b.ams[0].Set(fault.Status(503, "Retry-After", "30"))
		var eps []episodes.Episode
		for i := range 300 {
			eps = append(eps, fire(fmt.Sprintf("A%d", i)))
		}
		b.notify(eps...)
		b.pass(time.Second)
		b.ams[0].Set(nil)
		b.stop()
		for _, ep := range eps {
			b.told(ep.Alert, "firing")
		}
	})
}

// TestKilledDuringOutage: alerts that were active during an outage survive a kill of
// crowsnest.
func TestKilledDuringOutage(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		good, down := b.ams[0], b.ams[1]
		down.Set(fault.Reset)
		open, blip, short := fire("Open"), fire("Blip"), fire("Short")
		b.notify(open, blip)
		b.pass(5 * time.Second)
		b.notify(end(blip))
		b.pass(2 * time.Hour)
		b.notify(short)
		b.pass(30 * time.Second)
		short = end(short)
		b.notify(short)

		state, err := b.sink.Export()
		require.NoError(t, err)
		require.Less(t, len(state), 8<<10)
		b.stop()
		from := len(good.Accepted("Blip"))
		b.took = nil
		b.pass(time.Second)
		b.open(Config{}, state)
		b.notify(open, short)
		require.Equal(t, "firing", good.States("Short"), "min_firing holds")
		b.pass(30 * time.Second)
		require.Equal(t, "firing resolved", good.States("Short"))
		require.Len(t, good.Accepted("Blip"), from, "long over there")
		require.Empty(t, b.took, "nothing is detected again")

		down.Set(nil)
		b.within(5*time.Second, "notified", func() bool {
			return down.States("Open") == "firing" && down.States("Blip") == "firing" && down.States("Short") == "firing"
		})
		require.Equal(t, "something of Blip", down.Accepted("Blip")[0].Alert.Annotations["summary"])
		b.pass(time.Minute)
		require.Equal(t, "firing resolved", down.States("Blip"))
		require.Equal(t, "firing resolved", down.States("Short"))
		require.Empty(t, b.took, "the other one had them in time")
		b.pass(time.Hour)
		require.Equal(t, "firing resolved", good.States("Short"))
	})
}

// A new Alertmanager is sent the open alerts, and not the ones that ended before.
func TestNewEndpoint(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		open, over := fire("Open"), fire("Over")
		b.notify(open, over)
		b.pass(2 * time.Minute)
		over = end(over)
		b.notify(over)
		state, err := b.sink.Export()
		require.NoError(t, err)
		b.stop()
		b.ams = append(b.ams, fakeam.New())
		b.open(Config{}, state)
		b.notify(open, over)
		b.pass(5 * time.Minute)
		require.Equal(t, "firing", b.ams[1].States("Open"))
		require.NotContains(t, b.ams[1].States("Over"), "firing")
	})
}

// A new Alertmanager is sent the alerts that its predecessors did not accept.
func TestEndpointReplaced(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		b.ams[0].Set(fault.Reset)
		b.ams[1].Set(fault.Reset)
		blip := fire("Blip")
		b.notify(blip)
		b.pass(5 * time.Second)
		b.notify(end(blip))
		b.pass(time.Hour)
		state, err := b.sink.Export()
		require.NoError(t, err)
		b.stop()
		state = []byte(strings.NewReplacer("am-0", "old-0", "am-1", "old-1").Replace(string(state)))
		b.ams = []*fakeam.AM{fakeam.New()}
		b.open(Config{}, state)
		b.pass(2 * time.Minute)
		b.told("Blip", "firing resolved")
	})
}

// An end that waits for min_firing is sent as firing first to the new one, too.
func TestEndpointAdded(t *testing.T) {
	inBubble(t, 1, func(b *bench) {
		short := fire("Short")
		b.notify(short)
		b.pass(30 * time.Second)
		short = end(short)
		b.notify(short)
		state, err := b.sink.Export()
		require.NoError(t, err)
		b.stop()
		b.ams = append(b.ams, fakeam.New())
		b.open(Config{}, state)
		b.notify(short)
		b.pass(2 * time.Minute)
		b.told("Short", "firing resolved")
	})
}

// One accepted end counts, in any order.
func TestMarksForNewEndpoint(t *testing.T) {
	at := time.Now()
	told := sinks.Mark{Fingerprint: "0000000000000001", StartsAt: at, IsEnded: true, AcceptedAt: at, EndedAt: at}
	untold := sinks.Mark{Fingerprint: told.Fingerprint, StartsAt: at, IsEnded: true, AcceptedAt: at}
	open := sinks.Mark{Fingerprint: "0000000000000002", StartsAt: at, AcceptedAt: at}
	for range 50 {
		got := forNew(map[string][]sinks.Mark{"a": {told, open}, "b": {untold}, "c": {untold}})
		require.Equal(t, []sinks.Mark{told}, got)
	}
}

// Alerts that ended while no Alertmanager could be reached are notified completely, also
// over restarts of crowsnest.
func TestManyEndedOverRestart(t *testing.T) {
	const many = 1500
	inBubble(t, 1, func(b *bench) {
		am := b.ams[0]
		am.Set(fault.Reset)
		name := func(i int) string { return fmt.Sprintf("A%d", i) }
		var eps []episodes.Episode
		for i := range many {
			ep := fire(name(i))
			ep.Annotations["line"] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 512))
			eps = append(eps, ep, end(ep))
		}
		b.sink.Notify(eps)
		b.pass(time.Second)
		for range 2 {
			state, err := b.sink.Export()
			require.NoError(t, err)
			require.Less(t, len(state), 4<<20)
			b.stop()
			b.open(Config{}, state)
			b.pass(time.Minute)
		}
		am.Set(nil)
		b.within(5*time.Second, "the beginnings", func() bool { return len(am.All()) == many })
		b.pass(2 * time.Minute)
		for i := range many {
			require.Equal(t, "firing resolved", am.States(name(i)))
			words := am.Accepted(name(i))
			require.Contains(t, words[len(words)-1].Alert.Annotations["line"], fmt.Sprint(i, " xxx"))
		}
		require.Zero(t, b.sink.Status()[0].Failed[delivery.ReasonEvicted])
	})
}

func TestImportBroken(t *testing.T) {
	s, err := New(Config{URLs: []string{"http://am"}}, Options{})
	require.NoError(t, err)
	for _, in := range []string{"", "{", "[]", `{"version":9}`, `{"version":1,"endpoints":{"x":3}}`, `{"version":1,"endpoints":{"http://am":[["00"]]}}`} {
		require.Error(t, s.Import([]byte(in)), in)
	}
	require.NoError(t, s.Import([]byte(`{"version":1,"endpoints":{"http://am":[["??",1,false,0,0,0,0]]},"ended":[{}]}`)))
	require.Equal(t, sinks.StateStats{}, s.endpoints[0].State().Stats())
}

func TestAnswers(t *testing.T) {
	inBubble(t, 2, func(b *bench) {
		b.ams[1].Set(fault.Status(500))
		ep := fire("A")
		b.notify(ep)
		d := b.sink.Answers(ep.Fingerprint)
		slices.SortFunc(d, func(a, b sinks.Delivery) int { return strings.Compare(a.Endpoint, b.Endpoint) })
		require.Len(t, d, 2)
		require.Equal(t, sinks.Delivery{Endpoint: "http://am-0:9093", Time: time.Now(), LastAt: time.Now(), Times: 1, Code: 200}, d[0])
		require.Equal(t, 500, d[1].Code)
		require.Equal(t, "status 500: Internal Server Error", d[1].Error)
		require.Empty(t, b.sink.Answers(1))
	})
}
