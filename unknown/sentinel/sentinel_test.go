package sentinel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// upTo proves that everything is read up to a time.
func upTo(t time.Time) Proof { return func(map[string]string) time.Time { return t } }

// world is a Sentinel with streams and a clock.
type world struct {
	*Sentinel
	t       *testing.T
	streams map[string]*matcher.Stream
	now     time.Time
	firing  map[string]episodes.Episode // by component
	changes []string
}

func newWorld(t *testing.T, cfg Config) *world {
	if cfg.PerDay == 0 {
		cfg.PerDay = 10
	}
	cfg.Identity = rules.DefaultIdentity
	return &world{Sentinel: New(cfg), t: t, streams: map[string]*matcher.Stream{}, now: began, firing: map[string]episodes.Episode{}}
}

// stream returns the stream of a pod: "namespace/pod/container".
func (w *world) stream(name string) *matcher.Stream {
	if w.streams[name] == nil {
		part := strings.Split(name, "/")
		w.streams[name] = matcher.NewStream(matcher.Labels{"namespace": part[0], "pod": part[1], "container": part[2]}, matcher.StreamOptions{})
	}
	return w.streams[name]
}

// read takes a line, or only reads the stream if it is empty.
func (w *world) read(stream, line string) {
	var lines []matcher.Complaint
	if line != "" {
		lines = []matcher.Complaint{{Line: line, Time: w.now}}
	}
	w.Take(w.stream(stream), lines, w.now)
}

// pass moves the clock, and concludes every minute.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(time.Minute, end.Sub(w.now)))
		w.conclude(upTo(w.now))
	}
}

func (w *world) conclude(proof Proof) {
	for _, x := range w.Evaluate(w.now, proof) {
		name := x.Labels["namespace"] + "/" + x.Labels["container"]
		w.changes = append(w.changes, string(x.State)+" "+name)
		require.Equal(w.t, "info", x.Labels["severity"])
		if x.State == episodes.StateFiring {
			w.firing[name] = x
		} else {
			delete(w.firing, name)
		}
	}
}

const (
	manager = "capi-system/manager-0/manager"
	stuck   = `E0302 10:00:00.000000       1 controller.go:316] "Reconciler error" err="failed to create the load balancer: quota of the project is used up" controller="machine" namespace="shop" name="md-0-%s" reconcileID="%d"`
	fresh   = `E0302 10:00:00.000000       1 sync.go:88] "Cannot write the index" err="the file system became read-only"`
)

func TestPersistingOnAnObject(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 8 {
		w.read(manager, fmt.Sprintf(stuck, "a", i))
		w.pass(5 * time.Minute)
	}
	require.Len(t, w.firing, 1)
	x := w.firing["capi-system/manager"]
	require.Equal(t, AlertName, x.Alert)
	require.Equal(t, began, x.StartsAt)
	require.Contains(t, x.Annotations["description"], "quota of the project is used up")
	require.Contains(t, x.Annotations["description"], "about shop/md-0-a")
	require.Contains(t, x.Annotations["description"], "manager-0")
	require.Contains(t, x.Annotations["remediation"], "- {namespace: 'capi-system', component: 'manager', text: '")
	require.Equal(t, []string{"firing capi-system/manager"}, w.changes)

	t.Run("it ends when its lines are proved to be absent", func(t *testing.T) {
		w.now = w.now.Add(3 * time.Hour)
		w.conclude(func(map[string]string) time.Time { return time.Time{} })
		w.conclude(upTo(began.Add(45 * time.Minute)))
		require.Len(t, w.firing, 1, "a source that is away ends nothing")
		w.conclude(upTo(w.now))
		require.Empty(t, w.firing)
	})
}

func TestRetriesOfDifferentObjectsAreOrdinary(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 40 {
		w.read(manager, fmt.Sprintf(stuck, fmt.Sprint("m", i), i))
		w.pass(5 * time.Minute)
	}
	require.Empty(t, w.firing)
}

func TestConflictsAreOrdinary(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 10 {
		w.read(manager, fmt.Sprintf(`E0302 10:00:00.000000       1 controller.go:316] "Reconciler error" err="Operation cannot be fulfilled on machines \"a\": the object has been modified; please apply your changes to the latest version and try again" controller="machine" namespace="shop" name="a" reconcileID="%d"`, i))
		w.pass(6 * time.Minute)
	}
	require.Empty(t, w.firing)
}

func TestNew(t *testing.T) {
	repeat := func(w *world, n int) {
		for range n {
			w.read(manager, fresh)
			w.pass(5 * time.Minute)
		}
	}
	t.Run("after an hour of reading", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.read(manager, "")
		w.pass(2 * time.Hour)
		w.read(manager, fresh)
		w.pass(time.Minute)
		require.Empty(t, w.firing, "one line is not enough")
		w.pass(4 * time.Minute)
		repeat(w, 2)
		require.Contains(t, w.firing["capi-system/manager"].Annotations["summary"], "did not report before")
	})
	t.Run("not in the first hour", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.read(manager, "")
		w.pass(30 * time.Minute)
		repeat(w, 5)
		require.Empty(t, w.firing)
	})
	t.Run("not again", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.read(manager, fresh)
		w.pass(2 * time.Hour)
		repeat(w, 4)
		require.Empty(t, w.firing)
	})
	t.Run("not at the start of a pod", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.read(manager, "")
		w.pass(2 * time.Hour)
		for range 4 {
			w.read("capi-system/manager-1/manager", fresh)
			w.pass(150 * time.Second)
		}
		require.Empty(t, w.firing)
	})
	t.Run("a similar one is known", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.read(manager, `E0302 10:00:00.000000       1 sync.go:88] "Cannot write the index" err="the file system became read-only again"`)
		w.pass(2 * time.Hour)
		repeat(w, 4)
		require.Empty(t, w.firing)
	})
	t.Run("what changed before", func(t *testing.T) {
		image := "registry.example/manager:1.4.0"
		w := newWorld(t, Config{Image: func(string, string, string) string { return image }})
		w.read(manager, "")
		w.pass(2 * time.Hour)
		image = "registry.example/manager:1.5.0"
		w.read("capi-system/manager-1/manager", "")
		w.pass(11 * time.Minute)
		for range 3 {
			w.read("capi-system/manager-1/manager", fresh)
			w.pass(5 * time.Minute)
		}
		text := w.firing["capi-system/manager"].Annotations["description"]
		require.Contains(t, text, "The image changed from registry.example/manager:1.4.0 to registry.example/manager:1.5.0")
		require.Contains(t, text, "Pod manager-1 is read since")
	})
}

func TestReplicasAreOneComponent(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 8 {
		w.read(fmt.Sprintf("capi-system/manager-%d/manager", i%2), fmt.Sprintf(stuck, "a", i))
		w.pass(5 * time.Minute)
	}
	require.Equal(t, []string{"firing capi-system/manager"}, w.changes)
}

func TestIgnore(t *testing.T) {
	for _, ignore := range []IgnoreRule{{Namespace: "capi-*"}, {Component: "manager"}, {Text: "QUOTA of the project"}, {Namespace: "capi-system", Component: "man*", Text: "quota"}} {
		w := newWorld(t, Config{Ignore: []IgnoreRule{{Namespace: "shop"}, ignore}})
		for i := range 8 {
			w.read(manager, fmt.Sprintf(stuck, "a", i))
			w.pass(5 * time.Minute)
		}
		require.Empty(t, w.firing, "%+v", ignore)
	}
}

func TestLimitOfADay(t *testing.T) {
	trusted := func(ns string) bool { return ns == "capi-system" }
	w := newWorld(t, Config{PerDay: 8, Trusted: trusted})
	for i := range 8 {
		for k := range 20 {
			w.read(fmt.Sprintf("tenant-%d/p/c-%d", k%2, k), fmt.Sprintf(stuck, "a", i))
		}
		if i > 0 {
			for k := range 6 {
				w.read(fmt.Sprintf("capi-system/p/c-%d", k), fmt.Sprintf(stuck, "a", i))
			}
		}
		w.pass(5 * time.Minute)
	}
	by := map[string]int{}
	for name := range w.firing {
		by[strings.Split(name, "/")[0]]++
	}
	require.Equal(t, map[string]int{"tenant-0": 2, "tenant-1": 2, "capi-system": 4}, by)
	require.Equal(t, 18, w.Stats().Held)
	require.Equal(t, StateHeld, w.List(w.now, upTo(w.now), 100)[25].State)
}

func TestSecretsAreHidden(t *testing.T) {
	w := newWorld(t, Config{Redactor: redact.New(nil)})
	for range 8 {
		w.read(manager, `E0302 10:00:00.000000       1 login.go:8] "Cannot log in" err="server refused password=hunter2hunter2" url="https://admin:geheim99@db.example"`)
		w.pass(5 * time.Minute)
	}
	b, err := w.Export()
	require.NoError(t, err)
	require.Contains(t, string(b), "Cannot log in")
	for _, secret := range []string{"hunter2", "geheim99"} {
		require.NotContains(t, string(b)+fmt.Sprint(w.OpenAlerts()), secret)
	}
}

// A process that is killed after any minute, and starts again from the saved state,
// notifies the same alerts with the same times, and none twice.
func TestRestart(t *testing.T) {
	run := func(kill bool) []string {
		w := newWorld(t, Config{})
		w.read(manager, "")
		w.pass(70 * time.Minute)
		for i := range 60 {
			if i%2 == 0 && i < 40 {
				w.read(manager, fresh)
				w.read("shop/web-0/web", fmt.Sprintf(stuck, "a", i))
			}
			if kill {
				b, err := w.Export()
				require.NoError(t, err)
				require.True(t, json.Valid(b))
				w.Sentinel, w.streams = New(w.cfg), map[string]*matcher.Stream{}
				require.NoError(t, w.Import(b))
				open := w.OpenAlerts()
				require.Len(t, open, len(w.firing))
				for _, x := range open {
					was := w.firing[x.Labels["namespace"]+"/"+x.Labels["container"]]
					require.Equal(t, was.Fingerprint, x.Fingerprint)
					require.Equal(t, was.StartsAt, x.StartsAt)
				}
				w.read(manager, "")
			}
			w.pass(2 * time.Minute)
		}
		return w.changes
	}
	want := run(false)
	require.Len(t, want, 4)
	require.Equal(t, want, run(true))
}

// The aggregator of some agents concludes what one process that reads all lines does,
// whatever arrives again, late or in another order.
func TestAgentsEqualOneProcess(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		one, aggregator := newWorld(t, Config{}), newWorld(t, Config{})
		agents := []*world{newWorld(t, Config{}), newWorld(t, Config{}), newWorld(t, Config{})}
		lines := []string{fmt.Sprintf(stuck, "a", 1), fmt.Sprintf(stuck, "b", 1), fresh, `W0302 10:00:00.000000       1 watch.go:9] "Slow answer of the server" took="2s"`, ""}
		reported := make([]time.Time, len(agents))
		for minute := range 240 {
			for k, a := range agents {
				now := began.Add(time.Duration(minute) * time.Minute)
				a.now, one.now, aggregator.now = now, now, now
				if k == 2 && minute < 100 {
					continue // its node joins later
				}
				stream := fmt.Sprintf("capi-system/manager-%d/manager", k)
				line := lines[len(lines)-1]
				if r.IntN(3) == 0 && minute%120 < 70 {
					line = lines[(r.IntN(2)+minute/60)%len(lines)]
				}
				a.read(stream, line)
				one.read(stream, line)
				if r.IntN(20) > 0 {
					report := a.Summary(a.now)
					reported[k] = a.now
					for range 1 + r.IntN(2) {
						require.NoError(t, aggregator.Merge(fmt.Sprint("node-", k), report, a.now))
					}
				}
				if r.IntN(30) == 0 { // the agent starts again from its state
					b, err := a.Export()
					require.NoError(t, err)
					a.Sentinel, a.streams = New(a.cfg), map[string]*matcher.Stream{}
					require.NoError(t, a.Import(b))
				}
			}
			proved := one.now
			for k := range agents {
				if t, ok := aggregator.ReportTimes()[fmt.Sprint("node-", k)]; ok {
					require.False(aggregator.t, t.After(reported[k]))
					proved = earlier(proved, t)
				}
			}
			one.conclude(upTo(proved))
			if proved.Equal(one.now) { // both know the same lines
				aggregator.conclude(upTo(proved))
				require.Equal(t, keysOf(one.firing), keysOf(aggregator.firing), "seed %d, minute %d", seed, minute)
			}
		}
		for name, x := range one.firing {
			require.Equal(t, x.StartsAt, aggregator.firing[name].StartsAt)
		}
		require.NotEmpty(t, aggregator.changes)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func keysOf(m map[string]episodes.Episode) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

// A tenant who writes endless different complaints pushes out only its own, and the memory
// stays within its bound.
func TestFloodOfPatterns(t *testing.T) {
	w := newWorld(t, Config{Trusted: func(ns string) bool { return ns == "capi-system" }})
	before := heap()
	for k := range 50 {
		w.read("victim/web-0/web", fmt.Sprintf(`E0302 10:00:00.000000       1 a.go:1] "Cannot serve %s" err="the backend is unreachable"`, word(k)))
	}
	w.read(manager, fresh)
	const lines = 30_000
	for i := range lines {
		stream := fmt.Sprintf("evil-%d/p-%d/c-%d", i%3, i%7, i/1000%40)
		w.now = began.Add(time.Duration(i) * 10 * time.Millisecond)
		w.read(stream, fmt.Sprintf(`E0302 10:00:00.000000       1 a.go:1] "failed %s %s %s" object="%s" err="cannot %s %s"`, word(i), word(i/26), word(i/700), strings.Repeat(word(i), 20), word(i/3), strings.Repeat("x ", i%200)))
	}
	st := w.Stats()
	require.LessOrEqual(t, st.Patterns, maxPatterns*5/4)
	require.Greater(t, st.Evicted, int64(1000))
	b, err := w.Export()
	require.NoError(t, err)
	require.Less(t, len(b), 3<<20)
	used := heap() - before
	t.Logf("%d patterns of %d components, %d evicted: heap %d KiB, state %d KiB", st.Patterns, st.Components, st.Evicted, used>>10, len(b)>>10)
	require.Less(t, used, int64(8<<20))
	kept := 0
	for c := range w.complainingComponents() {
		if c.namespace() == "victim" || c.namespace() == "capi-system" {
			kept += c.patterns.Used()
		}
	}
	require.Equal(t, 51, kept)
	runtime.KeepAlive(w)
}

func word(i int) string {
	b := []byte("wordaaaa")
	for k := 4; k < len(b); k++ {
		b[k] = byte('a' + i%26)
		i /= 26
	}
	return string(b)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Whatever an agent sends, the aggregator stays within its bounds and has no text that is
// not safe to show.
func TestHostileReport(t *testing.T) {
	w := newWorld(t, Config{})
	long := redact.Text(strings.Repeat("a\x1b[31m\u202e", 4000))
	report := savedState{Version: version, UpTo: 1 << 40, Components: []savedComponent{
		{Labels: map[string]string{"namespace": "a", "container": "c", "evil": "x"}},
		{Labels: map[string]string{"namespace": "a", "container": strings.Repeat("c", 300)}},
		{Labels: map[string]string{"namespace": "a", "container": "c"}, Since: -5, Image: string(long), Pods: []podSeen{{Name: string(long)}}, Patterns: []savedPattern{{pattern: pattern{
			Key: 1, Template: long, Error: long, First: 5, Last: 1 << 50, Count: 1 << 60, Line: long, Runs: []run{{Object: long, slots: slots{Newest: 1 << 30, Bits: 3}}},
			All: slots{Newest: 1, Bits: ^uint64(0)}, Examples: []example{{long, long}, {"b", long}, {"c", long}, {"d", long}}, Pods: []string{string(long)},
		}}}},
	}}
	b, err := json.Marshal(report)
	require.NoError(t, err)
	require.NoError(t, w.Merge("node-0", b, began))
	require.Error(t, w.Merge("node-0", []byte("{"), began))
	require.Equal(t, 1, w.Stats().Components)
	require.Equal(t, map[string]time.Time{"node-0": began}, w.ReportTimes())
	out, err := w.Export()
	require.NoError(t, err)
	require.Less(t, len(out), 16<<10)
	require.NotContains(t, string(out), `\u001b`)
	require.NotContains(t, string(out), "\u202e")
}

func TestSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var all, a, b slots
		base := int64(1_700_000_000)
		for range r.IntN(30) {
			at := base + r.Int64N(30000)
			all.add(at)
			if r.IntN(2) == 0 {
				a.add(at)
			} else {
				b.add(at)
			}
		}
		x, y := a, b
		x.merge(b)
		y.merge(a)
		y.merge(a)
		require.Equal(t, all, x)
		require.Equal(t, all, y)
	}
	var s slots
	for k := range int64(3) {
		s.add(1_700_000_100 + k*slotSeconds*maxGap)
	}
	require.Equal(t, chain{3, 8}, s.newest())
	s.add(1_700_000_100 + 8*slotSeconds + (maxGap+1)*slotSeconds)
	require.Equal(t, chain{1, 0}, s.newest())
}

// BenchmarkTake measures one complaint: in a storm of equal ones, and of lines that are
// looked at.
func BenchmarkTake(b *testing.B) {
	for _, kind := range []struct {
		name  string
		every time.Duration
	}{{"storm", 0}, {"ten a second", 100 * time.Millisecond}, {"each is looked at", 10 * time.Second}} {
		b.Run(kind.name, func(b *testing.B) {
			s := New(Config{PerDay: 10, Redactor: redact.New(nil)})
			stream := matcher.NewStream(matcher.Labels{"namespace": "a", "pod": "p", "container": "c"}, matcher.StreamOptions{})
			lines := make([]matcher.Complaint, 10)
			for i := range lines {
				lines[i].Line = fmt.Sprintf(stuck, "a", i)
			}
			now := began
			for i := range b.N {
				now = now.Add(kind.every)
				x := lines[i%10 : i%10+1]
				x[0].Time = now
				s.Take(stream, x, now)
			}
		})
	}
}

// The alert of a component that is forgotten for lack of room ends.
func TestForgottenComponent(t *testing.T) {
	w := newWorld(t, Config{Trusted: func(string) bool { return false }})
	for i := range 8 {
		w.read(manager, fmt.Sprintf(stuck, "a", i))
		w.pass(5 * time.Minute)
	}
	require.Len(t, w.firing, 1)
	for i := range 2 * maxComponents {
		w.read(fmt.Sprintf("capi-system/p/c-%d", i), "")
	}
	w.conclude(upTo(w.now))
	require.Empty(t, w.firing)
	require.Zero(t, w.Stats().Open)
	require.LessOrEqual(t, w.Stats().Components, maxComponents*5/4)
}

// A look at every line of a log without repetitions would take more time than reading it.
func TestNewShapesAreFew(t *testing.T) {
	p, n := newPace(), &note{stream: 1, component: &component{party: "a"}}
	looked := map[string]int64{}
	for second := range int64(100) {
		for i := range 50 {
			text := []byte("failed to sync ")
			for x := second*50 + int64(i); x > 0; x /= 20 {
				text = append(text, byte('a'+x%20), ' ')
			}
			looked["new"] += min(p.admit(n, string(text), 1000+second), 1)
		}
		looked["again"] += p.admit(n, "failed to mount the volume of the pod", 1000+second)
	}
	require.Equal(t, int64(newBurst+99*newPerSecond-1), looked["new"], "the line that repeats was new once")
	require.Greater(t, looked["again"], int64(60), "lines that repeat are counted, whether looked at or not")
}
