package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// pipe is a test pipeline. It stores the lines of every container.
type pipe struct {
	sources.Pipeline // what is not used here

	cut        sync.RWMutex
	mu         sync.Mutex
	lines      map[string][]string // by NS/POD/CONTAINER, with their times
	labels     map[string]matcher.Labels
	podDeleted []string
	watermark  time.Time
	lagging    []matcher.LaggingStream
	prog       *matcher.Program
	hits       []matcher.Hit
}

func newPipe() *pipe {
	prog, err := matcher.Compile(&rules.Set{})
	if err != nil {
		panic(err)
	}
	return &pipe{prog: prog, lines: map[string][]string{}, labels: map[string]matcher.Labels{}}
}

func (p *pipe) Scan(s *matcher.Stream, block []byte, commit func()) {
	p.cut.RLock()
	defer p.cut.RUnlock()
	hits := p.prog.Scan(s, block, time.Now())
	l := s.Labels()
	key := l["namespace"] + "/" + l["pod"] + "/" + l["container"]
	p.mu.Lock()
	p.labels[key] = l
	p.hits = append(p.hits, hits...)
	for line := range strings.Lines(string(block)) {
		p.lines[key] = append(p.lines[key], strings.Replace(strings.TrimSuffix(line, "\n"), " stdout F ", " ", 1))
	}
	p.mu.Unlock()
	commit()
}

func (p *pipe) AdvanceWatermark(_ string, at time.Time, lagging ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watermark, p.lagging = at, lagging
}

// lag returns up to when the lagging streams were read.
func (p *pipe) lag() map[string]time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]time.Time{}
	for _, l := range p.lagging {
		out[l.String()] = l.ReadUpTo
	}
	return out
}

func (p *pipe) PodDeleted(pod matcher.Labels, _ time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.podDeleted = append(p.podDeleted, pod["namespace"]+"/"+pod["pod"])
}

// texts returns the lines of a container without their timestamps.
func (p *pipe) texts(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, l := range p.lines[key] {
		_, text, _ := strings.Cut(l, " ")
		out = append(out, text)
	}
	return out
}

func (p *pipe) provedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watermark
}

// bench is a source with a fake API inside a synctest bubble.
type bench struct {
	*testing.T
	api   *fakeAPI
	pipe  *pipe
	src   *Source
	rules *rules.Set // that it begins with; nil: none, so it follows every log
	cfg   Config
	stop  func()
}

// inBubble runs f with an API server; the source is not started yet.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, api: newFakeAPI(), pipe: newPipe()}
		defer func() {
			if b.stop != nil {
				b.stop()
			}
		}()
		f(b)
	})
}

// start runs a source.
func (b *bench) start(positions ...json.RawMessage) {
	b.Helper()
	cfg := b.cfg
	cfg.Transport = b.api
	b.src = New(cfg)
	for _, p := range positions {
		require.NoError(b, b.src.Restore(p))
	}
	if b.rules != nil {
		b.src.Info().UseRules(b.rules)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.src.Run(ctx, b.pipe) }()
	b.stop = func() {
		b.Helper()
		cancel()
		require.NoError(b, <-done)
		b.stop = nil
	}
}

// positions returns the saved positions, under the checkpoint lock.
func (b *bench) positions() json.RawMessage {
	b.pipe.cut.Lock()
	defer b.pipe.cut.Unlock()
	return b.src.Positions()
}

// pass advances the clock.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual
	synctest.Wait()
}

// pod creates a pod ns/name with one running container c, and its log.
func (b *bench) pod(ns, name string) *fakeLog {
	b.api.put(fakePod{ns: ns, name: name, node: "node-1", containers: []fakeContainer{{
		name: "c", image: "example.test/c:v1.2.3", id: "id-0", phase: running, started: time.Now(),
	}}})
	return b.api.log(ns, name, "c")
}

func (b *bench) want(key string, texts ...string) {
	b.Helper()
	require.Equal(b, texts, b.pipe.texts(key))
}

func TestFollows(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.cfg = Config{Labels: map[string]string{"cluster": "c1"}, Exclude: []string{"kube-*"}, OwnPod: sources.OwnPod{SelfNamespace: "mon", SelfPod: "crowsnest-0"}}
		now := time.Now()
		b.api.put(fakePod{
			ns: "demo", name: "web-5d4f-x2", node: "node-1", labels: map[string]string{"app": "web", "pod-template-hash": "5d4f"},
			owner: owner{Kind: "ReplicaSet", Name: "web-5d4f"},
			containers: []fakeContainer{
				{kind: "init", name: "setup", image: "example.test/setup:1", id: "i", phase: ended, started: now.Add(-2 * time.Minute), finished: now.Add(-time.Minute)},
				{name: "main", image: "example.test:5000/web:v1.2.3", id: "m", phase: running, started: now.Add(-time.Minute)},
				{kind: "ephemeral", name: "debug", image: "example.test/debug:1", id: "d", phase: running, started: now},
				{name: "later", image: "example.test/later:1"},
			},
		})
		b.api.log("demo", "web-5d4f-x2", "setup").write(now.Add(-90*time.Second), "set up")
		b.api.log("demo", "web-5d4f-x2", "setup").exit()
		b.api.log("demo", "web-5d4f-x2", "main").write(now.Add(-20*time.Minute), "too old")
		b.api.log("demo", "web-5d4f-x2", "main").write(now.Add(-30*time.Second), "hello", "")
		b.pod("kube-system", "dns").write(now, "excluded")
		b.pod("mon", "crowsnest-0").write(now, "own")
		b.start()
		b.pass(5 * time.Second)
		b.want("demo/web-5d4f-x2/setup", "set up")
		b.want("demo/web-5d4f-x2/main", "hello", "")
		require.Equal(b, matcher.Labels{
			"namespace": "demo", "pod": "web-5d4f-x2", "container": "main", "node_name": "node-1",
			"image": "example.test:5000/web:v1.2.3", "app": "web", "workload": "web", "cluster": "c1",
		}, b.pipe.labels["demo/web-5d4f-x2/main"])
		b.api.log("demo", "web-5d4f-x2", "main").write(time.Now(), "live")
		b.api.log("demo", "web-5d4f-x2", "debug").write(time.Now(), "debugging")
		b.pass(3 * time.Second)
		b.want("demo/web-5d4f-x2/main", "hello", "", "live")
		b.want("demo/web-5d4f-x2/debug", "debugging")
		require.Empty(b, b.pipe.texts("kube-system/dns/c"))
		require.Empty(b, b.pipe.texts("mon/crowsnest-0/c"))
		b.pod("demo", "new").write(time.Now(), "a new pod")
		b.pass(time.Second)
		b.want("demo/new/c", "a new pod")

		st := b.src.Status()
		require.True(b, st.Up)
		require.True(b, st.Opened)
		require.Empty(b, st.Error)
		require.EqualValues(b, 6, st.Lines)
		require.Equal(b, st.Lines, st.Evaluated+st.Dropped)
		require.Len(b, st.Streams, 3)
		b.pass(5 * time.Second)
		require.WithinDuration(b, time.Now(), b.pipe.provedAt(), time.Second)
		require.Zero(b, b.api.open("log demo/web-5d4f-x2/setup"), "the log of a terminated container is read once")
		require.Equal(b, 1, b.api.count("log demo/web-5d4f-x2/setup"))
	})
}

// TestCuts: however a log response ends, no line is lost or duplicated.
func TestCuts(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		b.pass(5 * time.Second)
		var want []string
		at, n := time.Now(), 0
		write := func(step time.Duration, count int) {
			for range count {
				at = at.Add(step)
				n++
				text := fmt.Sprintf("line %d", n)
				log.write(at, text)
				want = append(want, text)
			}
		}
		for i := range 60 {
			write(7*time.Millisecond, 50)
			write(0, 20) // of the same time
			log.write(at, "twin", "twin")
			want = append(want, "twin", "twin")
			write(-2*time.Millisecond, 3) // the other stream's stamps
			at = at.Add(10 * time.Millisecond)
			switch i % 4 {
			case 0:
				require.Equal(b, 1, b.api.cut("log", false))
			case 1:
				require.Equal(b, 1, b.api.cut("log", true), "round %d %v", i, b.src.Status())
			case 2:
				b.api.cut("log", false)
				write(time.Millisecond, 30) // while nobody is connected
			}
			b.pass(700 * time.Millisecond)
			if gap := time.Until(at); gap > 0 {
				b.pass(gap)
			} else {
				at = time.Now()
			}
		}
		b.pass(10 * time.Second)
		b.want("demo/p/c", want...)
		require.NotZero(b, b.src.Status().Errors["cut"])
		require.Empty(b, b.src.Status().Losses)
		require.Less(b, b.api.count("log"), 60)
	})
}

// TestRotationBugs: a log that has stalled is reopened, and one that is idle because
// nothing is written is not reopened endlessly.
func TestStall(t *testing.T) {
	inBubble(t, func(b *bench) {
		log := b.pod("demo", "p")
		b.start()
		for i := range 100 {
			log.write(time.Now(), fmt.Sprintf("line %d", i))
			b.pass(time.Second)
		}
		b.api.freeze("log")
		log.write(time.Now(), "unheard")
		frozen := time.Now()
		for len(b.pipe.texts("demo/p/c")) == 100 && time.Since(frozen) < time.Hour {
			b.pass(time.Second)
		}
		require.LessOrEqual(b, time.Since(frozen), 35*time.Second)
		require.EqualValues(b, 1, b.src.Status().Errors["stall"])
		asked := b.api.count("log")
		b.pass(2 * time.Hour)
		require.Less(b, b.api.count("log")-asked, 30)
		require.Len(b, b.pipe.texts("demo/p/c"), 101)
	})
}
