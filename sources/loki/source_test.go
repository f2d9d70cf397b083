package loki

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/sources/internal/rangeread"
	"crowsnest/test/fakeloki"
)

func TestNewLines(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.wait(time.Second)
		b.push("bad 1", 0)
		b.push("good", 0)
		b.wait(2 * time.Second)
		b.once("bad 1")
		require.Equal(t, 1, b.sink.Total(), "what no rule wants stays where it is")
		st := b.src.Status()
		require.True(t, st.Up && st.Opened)
		require.Empty(t, st.Error)
		require.Zero(t, st.Lag)
		require.EqualValues(t, 1, st.Lines)
		require.EqualValues(t, 5, st.Bytes)
		require.EqualValues(t, 1, st.Evaluated)
		require.Len(t, st.Streams, 1)
		require.Equal(t, matcher.Labels{"app": "a"}, st.Streams[0].Labels)
		require.Equal(t, 1, st.Streams[0].Rules)
		b.wait(time.Minute)
		require.Equal(t, 1, b.sink.Total())
		require.Len(t, b.sink.Hits, 1)
		require.Equal(t, "bad 1", b.sink.Hits[0].Line)
	})
}

// Lines are read however late they arrive, once each, and counted as late.
func TestLateLines(t *testing.T) {
	inBubble(t, func(c *Config) { c.LookBack = 2 * time.Hour }, func(b *bench) {
		b.wait(time.Minute)
		ages := []time.Duration{0, 3 * time.Second, 30 * time.Second, 2 * time.Minute, 6 * time.Minute, 59 * time.Minute}
		var texts []string
		for _, age := range ages {
			b.push(fmt.Sprint("bad ", age), age)
			texts = append(texts, fmt.Sprint("bad ", age))
		}
		b.push("bad ahead", -9*time.Minute)
		b.wait(1100 * time.Millisecond)
		b.once(texts[:2]...)
		b.once("bad ahead")
		b.wait(20 * time.Second)
		b.once(texts...)
		b.wait(15 * time.Minute)
		require.Equal(t, len(ages)+1, b.sink.Total())
		errs := b.src.Status().Errors
		require.EqualValues(t, 1, errs["late_10s"])
		require.EqualValues(t, 1, errs["late_1m"])
		require.EqualValues(t, 2, errs["late_5m"])
	})
}

// With the default intervals, a line is read within 15 seconds if it is not later than the
// lateness, and within five minutes otherwise.
func TestUsualIntervals(t *testing.T) {
	inBubble(t, func(c *Config) { usual(c); c.LookBack = 2 * time.Hour }, func(b *bench) {
		b.wait(10 * time.Minute)
		for i := range 40 {
			b.push(fmt.Sprint("bad now ", i), 0)
			b.push(fmt.Sprint("bad late ", i), 110*time.Second)
			b.push(fmt.Sprint("bad very late ", i), time.Duration(50+i%10)*time.Minute)
			b.wait(15100 * time.Millisecond)
			b.once(fmt.Sprint("bad now ", i), fmt.Sprint("bad late ", i))
			require.WithinDuration(t, time.Now(), b.src.Status().Watermark, 16*time.Second)
		}
		b.wait(5 * time.Minute)
		for i := range 40 {
			b.once(fmt.Sprint("bad very late ", i))
		}
		b.wait(time.Hour)
		require.Equal(t, 3*40, b.sink.Total())
	})
}

// Lines up to the watermark were read, if they are not later than the lateness, and
// the watermark follows soon.
func TestProof(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		began := time.Now()
		for i := range 600 {
			late := time.Duration(i%120) * time.Second
			b.loki.Push(fakeloki.Entry{
				Labels: labelsA, Line: fmt.Sprint("bad ", i),
				Time: began.Add(time.Duration(i) * time.Second), Arrives: began.Add(time.Duration(i)*time.Second + late),
			})
		}
		read := 0
		for range 500 {
			b.wait(time.Second)
			b.sink.Mu.Lock()
			watermark := b.sink.Watermark["loki"]
			require.Less(t, time.Since(watermark), 7*time.Second)
			for ; read < int(watermark.Sub(began)/time.Second)-120; read++ {
				require.Equal(t, 1, b.sink.Count[fmt.Sprint("bad ", read)], "line %d is before the watermark %s", read, watermark)
			}
			b.sink.Mu.Unlock()
		}
		for i := range read { // and none was passed on again
			require.Equal(t, 1, b.sink.Count[fmt.Sprint("bad ", i)])
		}
		require.WithinDuration(t, time.Now(), b.src.Status().Watermark, 7*time.Second)
	})
}

func TestLookBack(t *testing.T) {
	inBubble(t, func(c *Config) { c.LookBack = 20 * time.Minute }, func(b *bench) {
		b.push("bad old", 21*time.Minute)
		b.push("bad", 19*time.Minute)
		b.wait(time.Minute)
		b.push("bad late", 25*time.Minute)
		b.wait(time.Minute)
		b.once("bad")
		require.Equal(t, 1, b.sink.Total())
	})
}

// Every kind of failure of requests, while lines arrive.
func TestFaults(t *testing.T) {
	faults := map[string]func(b *bench) fakeloki.Fault{
		"cut":        func(*bench) fakeloki.Fault { return fakeloki.Reset },
		"cut often":  func(*bench) fakeloki.Fault { return fakeloki.Every(2, fakeloki.Reset) },
		"hang":       func(*bench) fakeloki.Fault { return fakeloki.Hang },
		"hang often": func(*bench) fakeloki.Fault { return fakeloki.Every(3, fakeloki.Hang) },
		"slow":       func(*bench) fakeloki.Fault { return fakeloki.Slow(3 * time.Second) },
		"500":        func(*bench) fakeloki.Fault { return fakeloki.Status(500, "empty ring") },
		"503":        func(*bench) fakeloki.Fault { return fakeloki.Every(2, fakeloki.Status(503, "no", "Retry-After", "7")) },
		"429":        func(*bench) fakeloki.Fault { return fakeloki.Status(429, "slow down", "Retry-After", "30") },
		"half":       func(b *bench) fakeloki.Fault { return b.loki.Half(100) },
		"half often": func(b *bench) fakeloki.Fault { return fakeloki.Every(2, b.loki.Half(300)) },
		"no JSON":    func(*bench) fakeloki.Fault { return fakeloki.Status(200, "<html>") },
		"other JSON": func(*bench) fakeloki.Fault {
			return fakeloki.Status(200, `{"data":{"resultType":"matrix","result":[]}}`)
		},
		"endless":      func(*bench) fakeloki.Fault { return fakeloki.Every(40, fakeloki.Endless) },
		"bomb":         func(*bench) fakeloki.Fault { return fakeloki.Every(40, fakeloki.Bomb) },
		"redirect":     func(*bench) fakeloki.Fault { return fakeloki.Status(302, "", "Location", "http://elsewhere/") },
		"unauthorized": func(*bench) fakeloki.Fault { return fakeloki.Status(401, "no org id") },
		"404":          func(*bench) fakeloki.Fault { return fakeloki.Status(404, "not here") },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(b *bench) {
				var texts []string
				push := func(n int) {
					for range n {
						texts = append(texts, fmt.Sprint("bad ", len(texts)))
						b.push(texts[len(texts)-1], 0)
						b.wait(500 * time.Millisecond)
					}
				}
				push(20)
				b.loki.Set(fault(b))
				push(200)
				b.loki.Set(nil)
				push(20)
				b.wait(time.Minute) // 30 s for problems that only people can fix
				b.once(texts...)
				require.Equal(t, len(texts), b.sink.Total())
				st := b.src.Status()
				require.True(t, st.Up)
				require.Empty(t, st.Error)
				require.Empty(t, st.Losses)
			})
		})
	}
}

// The source soon catches up after a night's outage, and reports its progress.
func TestCatchUp(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.wait(10 * time.Second)
		b.loki.Set(fakeloki.Reset)
		var texts []string
		for i := range 5000 {
			texts = append(texts, fmt.Sprint("bad ", i))
			b.loki.Push(fakeloki.Entry{Labels: labelsA, Line: texts[i], Time: time.Now().Add(time.Duration(i) * 2 * time.Second)})
		}
		b.wait(3 * time.Hour)
		st := b.src.Status()
		require.False(t, st.Up)
		require.Contains(t, st.Error, "connection reset")
		require.InDelta(t, 3*time.Hour, st.Lag, float64(time.Minute))
		b.loki.Set(nil)
		b.wait(30 * time.Second)
		b.once(texts...)
		require.Zero(t, b.src.Status().Lag)
		require.WithinDuration(t, time.Now(), b.src.Status().Watermark, 30*time.Second)
	})
}

func TestTooLongAnOutage(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.wait(10 * time.Second)
		b.loki.Set(fakeloki.Hang)
		b.push("bad lost", -time.Hour)
		b.wait(26 * time.Hour)
		b.push("bad", time.Hour)
		b.loki.Set(nil)
		b.wait(time.Minute)
		b.once("bad")
		require.EqualValues(t, 1, b.src.Status().Losses["outage"].Count)
		require.Equal(t, 1, b.sink.Total())
	})
}

// A wrong tenant is reported at once and retried rarely.
func TestUnauthorized(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.loki.Set(fakeloki.Status(401, "no org id"))
		b.wait(10 * time.Second)
		b.loki.Requests()
		b.wait(5 * time.Minute)
		require.LessOrEqual(t, len(b.loki.Requests()), 21)
		st := b.src.Status()
		require.False(t, st.Up || st.Opened && st.Up)
		require.Contains(t, st.Error, "401")
		require.Contains(t, st.Error, "tenants")
	})
}

// A restart continues at the saved positions: no line is lost or duplicated, whenever
// the process was killed.
func TestRestart(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		began := time.Now()
		var texts []string
		for i := range 2000 {
			late := time.Duration(0)
			if i%50 == 0 {
				late = time.Duration(i%300) * time.Second
			}
			at := began.Add(time.Duration(i) * 200 * time.Millisecond)
			texts = append(texts, fmt.Sprint("bad ", i))
			b.loki.Push(fakeloki.Entry{Labels: labelsA, Line: texts[i], Time: at, Arrives: at.Add(late)})
		}
		for i := range 15 {
			b.wait(time.Duration(7+i) * time.Second)
			count, pos := b.sink.Snapshot(b.src)
			b.wait(700 * time.Millisecond) // lost with the kill
			b.stop()
			b.sink.Count = count
			b.wait(time.Duration(i) * time.Second)
			b.start(config(b.loki), pos)
		}
		b.wait(5 * time.Minute)
		b.once(texts...)
		require.Equal(t, len(texts), b.sink.Total())
	})
}

func TestRestoreBroken(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		err := New(Config{rangeread.Config{URL: "http://x", Selector: `{a="b"}`}})[0].Restore(json.RawMessage(text))
		require.ErrorContains(t, err, want)
	}
	f(`{`, "read positions of loki")
	f(`[]`, "read positions of loki")
	f(`{"version":9}`, "version 9 is unknown")
	f(`{"version":1}`, "inconsistent")
	f(`{"version":1,"covered":5,"floor":6,"proved":1,"deep":1}`, "inconsistent")
	f(`{"version":1,"covered":5,"floor":1,"proved":1,"deep":1,"keys":"AAAA"}`, "damaged")
	s := New(Config{rangeread.Config{URL: "http://x", Selector: `{a="b"}`}})[0]
	require.NoError(t, s.Restore(nil))
	require.Nil(t, s.Positions())
}

// The state is saved now and then even if nothing matches: a restart must not read a
// quiet day again.
func TestQuietDay(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.wait(10 * time.Minute)
		b.sink.Mu.Lock()
		require.InDelta(t, 60, b.sink.Marks, 3)
		b.sink.Mu.Unlock()
		pos := b.saved()
		require.WithinDuration(t, time.Now(), time.Unix(0, pos.Covered), 2*time.Second)
		require.Empty(t, pos.Keys)
	})
}

// The requests to a Loki in which no rule matches a line.
func TestRequests(t *testing.T) {
	inBubble(t, func(c *Config) { usual(c); c.Tenants = []string{"prod"} }, func(b *bench) {
		b.loki.Push(fakeloki.Entry{Tenant: "prod", Labels: map[string]string{"app": "a"}, Time: time.Now(), Line: "well"})
		b.wait(5 * time.Minute)
		b.loki.Requests()
		b.wait(10 * time.Minute)
		all := b.loki.Requests()
		require.InDelta(t, 42, len(all), 1)
		asked := map[string]bool{}
		for _, r := range all {
			require.Equal(t, http.MethodGet, r.Method)
			require.Equal(t, "prod", r.Tenant)
			require.Equal(t, "categorize-labels", r.Header.Get("X-Loki-Response-Encoding-Flags"))
			query, comment, _ := strings.Cut(r.Query, " # ")
			require.Equal(t, `{app=~".+", service_name!="crowsnest", app=~"a|"} |~ "(\x00)|(bad)"`, query)
			// A time that may be cached as empty is never queried twice.
			if old := r.To.Sub(r.From) > 10*time.Minute+20*time.Second; old {
				require.False(t, asked[r.Query])
				require.NotEmpty(t, comment)
			}
			asked[r.Query] = true
			require.Equal(t, 5000, r.Limit)
		}
	})
}
