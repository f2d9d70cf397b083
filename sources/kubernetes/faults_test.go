package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answers is a fault that replaces the response to every request whose last path
// element matches.
func answers(what string, a fakeAnswer) func(r *http.Request) *fakeAnswer {
	return func(r *http.Request) *fakeAnswer {
		if what != "" && !strings.HasSuffix(r.URL.Path, "/"+what) {
			return nil
		}
		return &a
	}
}

func statusBody(code int, reason, message string) string {
	b, _ := json.Marshal(map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message})
	return string(b)
}

// TestRefused: a problem that only an operator can fix is one clear, constant error.
// The source retries slowly, and the error ends with the problem.
func TestRefused(t *testing.T) {
	f := func(name, what string, a fakeAnswer, reason, text string, most int) {
		t.Helper()
		inBubble(t, func(b *bench) {
			for i := range 20 {
				b.pod("demo", fmt.Sprintf("p%d", i)).write(time.Now(), "line")
			}
			b.api.breaks(answers(what, a))
			b.start()
			b.pass(time.Minute)
			first := b.src.Status()
			require.False(b, first.Up, name)
			require.Contains(b, first.Error, text, name)
			require.True(b, b.pipe.provedAt().IsZero(), name)
			require.NotZero(b, first.Errors[reason], name)
			asked := b.api.count("")
			b.pass(30 * time.Minute)
			require.Equal(b, first.Error, b.src.Status().Error, name)
			require.Less(b, b.api.count("")-asked, most, name)
			b.api.breaks(nil)
			b.pass(2 * time.Minute)
			require.True(b, b.src.Status().Up, name)
			require.Empty(b, b.src.Status().Error, name)
			for i := range 20 {
				b.want(fmt.Sprintf("demo/p%d/c", i), "line") // however long it took
			}
			b.api.log("demo", "p3", "c").write(time.Now(), "new")
			b.pass(time.Second)
			b.want("demo/p3/c", "line", "new")
			require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second, name)
		})
	}
	f("token", "", fakeAnswer{code: 401, body: statusBody(401, "Unauthorized", "Unauthorized")},
		"unauthorized", "refuses the credentials", 70)
	f("no list", "pods", fakeAnswer{code: 403, body: statusBody(403, "Forbidden", `pods is forbidden: User "system:serviceaccount:mon:crowsnest" cannot list resource "pods"`)},
		"forbidden", `grant get, list, watch of pods and get of pods/log (the API server answers 403: pods is forbidden: User "system:serviceaccount:mon:crowsnest"`, 70)
	f("no logs", "log", fakeAnswer{code: 403, body: statusBody(403, "Forbidden", "pods \"p0\" is forbidden")},
		"forbidden", "not allowed: grant", 150)
	f("no API", "", fakeAnswer{code: 404, body: "404 page not found\n"}, "not_found", "pods cannot be listed: the API server answers 404: 404 page not found", 80)
}

// TestTokenExpires: a running source loses its credentials and gets them back.
func TestTokenExpires(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(10 * time.Second)
		log.write(time.Now(), "before")
		b.pass(time.Second)
		b.api.breaks(answers("", fakeAnswer{code: 401, body: statusBody(401, "Unauthorized", "Unauthorized")}))
		b.api.cut("", true)
		b.pass(time.Second)
		log.write(time.Now(), "meanwhile")
		held := b.pipe.provedAt()
		b.pass(5 * time.Minute)
		st := b.src.Status()
		require.False(b, st.Up)
		require.True(b, strings.HasPrefix(st.Error, "the API server refuses the credentials"), st.Error)
		require.Less(b, b.pipe.provedAt().Sub(held), time.Second, "the watermark stays meanwhile")
		b.api.breaks(nil)
		b.pass(time.Minute)
		b.want("demo/p/c", "before", "meanwhile")
		require.True(b, b.src.Status().Up)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
	})
}

// TestPasses: the source survives transient failures, and neither loses nor
// duplicates anything.
func TestPasses(t *testing.T) {
	f := func(name, what string, a fakeAnswer, lasts time.Duration, reason string, most int) {
		t.Helper()
		inBubble(t, func(b *bench) {
			log := b.pod("demo", "p")
			b.start()
			b.pass(10 * time.Second)
			log.write(time.Now(), "before")
			b.pass(time.Second)
			b.api.breaks(answers(what, a))
			b.api.cut("", false)
			asked := b.api.count("")
			for i := range 5 {
				log.write(time.Now(), fmt.Sprintf("meanwhile %d", i))
				b.pass(lasts / 5)
			}
			require.LessOrEqual(b, b.api.count("")-asked, most, name)
			require.NotZero(b, b.src.Status().Errors[reason], name)
			b.api.breaks(nil)
			b.pass(time.Minute)
			b.want("demo/p/c", "before", "meanwhile 0", "meanwhile 1", "meanwhile 2", "meanwhile 3", "meanwhile 4")
			require.True(b, b.src.Status().Up, name)
		})
	}
	f("starting", "log", fakeAnswer{code: 400, body: statusBody(400, "BadRequest", "container is waiting to start")}, 10*time.Second, "not_started", 20)
	f("Retry-After", "log", fakeAnswer{code: 429, header: map[string]string{"Retry-After": "20"}, body: "slow down"}, 60*time.Second, "throttled", 8)
	f("overload", "pods", fakeAnswer{code: 429, header: map[string]string{"Retry-After": "20"}, body: "slow down"}, 60*time.Second, "throttled", 8)
	f("broken", "", fakeAnswer{code: 500, body: "etcdserver: leader changed"}, time.Minute, "server", 40)
	f("gateway", "", fakeAnswer{code: 503, body: ""}, time.Minute, "server", 40)
	f("gone", "pods", fakeAnswer{code: 410, body: statusBody(410, "Expired", "too old")}, 20*time.Second, "expired", 60)
}

// TestExpired: a watch that is too old leads to a new list, and changes in between
// are noticed.
func TestExpired(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p")
		b.pod("demo", "q")
		b.start()
		b.pass(10 * time.Second)
		b.api.breaks(answers("pods", fakeAnswer{code: 500}))
		b.api.cut("watch", false)
		b.pass(time.Second)
		b.api.remove("demo", "q")
		b.pod("demo", "r").write(time.Now(), "line")
		b.api.mu.Lock()
		b.api.events = nil
		b.api.mu.Unlock()
		b.api.expire()
		b.api.breaks(nil)
		b.pass(30 * time.Second)
		b.want("demo/r/c", "line")
		require.Equal(b, []string{"demo/q"}, b.pipe.podDeleted)
		require.Equal(b, 2, b.api.count("list"))
		require.True(b, b.src.Status().Up)
	})
}

// TestWatchHangs: a silent watch is ended in time, and pods are listed again now and
// then.
func TestWatchHangs(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p")
		b.start()
		b.pass(10 * time.Second)
		b.api.freeze("watch")
		b.pod("demo", "q").write(time.Now(), "line")
		b.pass(7 * time.Minute)
		b.want("demo/q/c", "line")
		b.pass(time.Hour)
		require.GreaterOrEqual(b, b.api.count("list"), 3)
	})
}

// TestOneOfMany: the log of one of many containers cannot be read, each in turn: the others
// are read as if it were not there, only its own watermark stays, and it is named.
func TestOneOfMany(t *testing.T) {
	const many = 41
	slowly := fakeAnswer{code: 500, body: statusBody(500, "InternalError", "dial tcp 10.0.0.7:10250: i/o timeout")}
	ways := []func(r *http.Request) *fakeAnswer{
		func(*http.Request) *fakeAnswer { return &fakeAnswer{code: 500, body: "error"} },
		func(*http.Request) *fakeAnswer {
			return &fakeAnswer{code: 404, body: statusBody(404, "NotFound", "not found")}
		},
		func(*http.Request) *fakeAnswer {
			return &fakeAnswer{code: 200, body: "failed to create fsnotify watcher"}
		},
		func(*http.Request) *fakeAnswer {
			return &fakeAnswer{code: 400, body: statusBody(400, "BadRequest", "container not found")}
		},
		func(*http.Request) *fakeAnswer { return &fakeAnswer{code: 429, body: "slow down"} },
		func(*http.Request) *fakeAnswer { <-time.After(30 * time.Second); return &slowly },
	}
	inBubble(t, func(b *bench) {
		var logs []*fakeLog
		for i := range many {
			logs = append(logs, b.pod(fmt.Sprintf("ns-%d", i), "p"))
		}
		b.start()
		b.pass(10 * time.Second)
		want := make([][]string, many)
		write := func(i int) {
			want[i] = append(want[i], fmt.Sprint("line ", len(want[i])))
			logs[i].write(time.Now(), want[i][len(want[i])-1])
		}
		for bad := range many {
			way, name := ways[bad%len(ways)], fmt.Sprintf("ns-%d/p/c", bad)
			path := fmt.Sprintf("/ns-%d/pods/p/log", bad)
			b.api.breaks(func(r *http.Request) *fakeAnswer {
				if strings.HasSuffix(r.URL.Path, path) {
					return way(r)
				}
				return nil
			})
			at := time.Now()
			b.api.cut(fmt.Sprintf("log ns-%d/", bad), true)
			b.pass(35 * time.Second)
			for range 3 {
				for i := range many {
					write(i)
				}
				b.pass(time.Second)
				for i := range many {
					if i != bad {
						b.want(fmt.Sprintf("ns-%d/p/c", i), want[i]...)
					}
				}
				require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 2*time.Second, name)
				lag := b.pipe.lag()
				require.Len(b, lag, 1, name)
				require.WithinDuration(b, at, lag[name], 5*time.Second, name)
				st := b.src.Status()
				require.True(b, st.Up, name)
				require.Equal(b, many, st.Logs)
				require.Len(b, st.Unread, 1)
				require.Equal(b, name, st.Unread[0].Name)
				require.NotEmpty(b, st.Unread[0].Reason)
				b.pass(30 * time.Second)
			}
			b.api.breaks(nil)
			b.pass(2 * time.Minute)
			b.want(name, want[bad]...)
			require.Empty(b, b.pipe.lag(), name)
			require.Empty(b, b.src.Status().Unread, name)
			require.Empty(b, b.src.Status().Error, name)
		}
	})
}

// TestDeadNode: conclusions wait for the logs of an unreachable node for a while, not forever;
// if no node can be reached, the watermark does not move.
func TestDeadNode(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "good")
		b.pod("demo", "bad")
		b.start()
		b.pass(10 * time.Second)
		dead := fakeAnswer{code: 500, body: statusBody(500, "InternalError", "Get \"https://10.0.0.7:10250/containerLogs\": dial tcp: connect: connection refused")}
		b.api.breaks(answers("bad/log", dead))
		b.api.cut("log demo/bad", true)
		held := time.Now()
		b.pass(2 * time.Minute)
		st := b.src.Status()
		require.True(b, st.Up)
		require.Contains(b, st.Error, "logs of node node-1 cannot be read: the API server answers 500")
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
		require.WithinDuration(b, held, b.pipe.lag()["demo/bad/c"], 5*time.Second)
		log.write(time.Now(), "still read")
		b.pass(5 * time.Minute)
		b.want("demo/good/c", "still read")
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
		require.Empty(b, b.pipe.lag())
		require.Len(b, b.src.Status().Unread, 1, "it is still named")
		b.api.breaks(answers("log", dead))
		b.api.cut("log", true)
		held = time.Now()
		b.pass(20 * time.Minute)
		require.False(b, b.src.Status().Up)
		require.WithinDuration(b, held, b.pipe.provedAt(), 5*time.Second)
		b.api.breaks(nil)
		b.pass(2 * time.Minute)
		require.True(b, b.src.Status().Up)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
	})
}

// TestKubeletTalks: a message of the kubelet is not a line of the log.
func TestKubeletTalks(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p").write(time.Now(), "line")
		b.api.breaks(answers("log", fakeAnswer{code: 200, body: "failed to create fsnotify watcher: too many open files"}))
		b.start()
		b.pass(time.Minute)
		require.Empty(b, b.pipe.texts("demo/p/c"))
		require.Contains(b, b.src.Status().Error, `the log of demo/p/c: the kubelet sent a message instead: "failed to create fsnotify watcher`)
		b.api.breaks(nil)
		b.pass(time.Minute)
		b.want("demo/p/c", "line")
		require.Empty(b, b.src.Status().Error)
	})
}

// TestLogRemoved: the log of a terminated instance no longer exists.
func TestLogRemoved(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.pod("demo", "p")
		b.api.set("demo", "p", func(c *fakeContainer) { c.phase, c.finished = ended, time.Now() })
		b.api.breaks(answers("log", fakeAnswer{code: 200, body: "unable to retrieve container logs for containerd://id-0"}))
		b.start()
		b.pass(10 * time.Minute)
		st := b.src.Status()
		require.True(b, st.Up, st.Error)
		require.EqualValues(b, 1, st.Losses["removed"].Count)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), 5*time.Second)
	})
}

// TestTooMany: logs beyond max_streams are not read, and that is reported. A free
// slot is used.
func TestTooMany(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.cfg.MaxStreams = 3
		for i := range 5 {
			b.pod("demo", fmt.Sprintf("p%d", i))
		}
		b.start()
		b.pass(time.Minute)
		st := b.src.Status()
		require.False(b, st.Up)
		require.Contains(b, st.Error, "more than 3 containers")
		require.Len(b, st.Streams, 3)
		require.Equal(b, 3, b.api.open("log"))
		held := b.pipe.provedAt()
		b.pass(time.Minute)
		require.Equal(b, held, b.pipe.provedAt(), "unread logs hold the watermark")
		b.api.remove("demo", "p0")
		b.api.remove("demo", "p1")
		b.pass(20 * time.Second)
		b.api.log("demo", "p4", "c").write(time.Now(), "line")
		b.pass(2 * time.Second)
		b.want("demo/p4/c", "line")
		require.True(b, b.src.Status().Up)
	})
}

// TestManyPods: thousands of terminated pods cost neither goroutines nor requests.
func TestManyPods(t *testing.T) {
	inBubble(t, func(b *bench) {
		for i := range 2000 {
			p := fakePod{ns: "jobs", name: fmt.Sprintf("job-%d", i), containers: []fakeContainer{{
				name: "c", id: "id", phase: ended, started: time.Now().Add(-2 * time.Hour), finished: time.Now().Add(-time.Hour),
			}}}
			b.api.put(p)
		}
		b.pod("demo", "p").write(time.Now(), "line")
		before := runtime.NumGoroutine()
		b.start()
		b.pass(10 * time.Second)
		b.want("demo/p/c", "line")
		require.Equal(b, 1, b.api.count("log"))
		require.Equal(b, 9, b.api.count("list"))
		require.Less(b, runtime.NumGoroutine()-before, 30)
		require.Less(b, len(b.positions()), 1000)
	})
}
