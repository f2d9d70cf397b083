package bench

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/test/traffic"
)

// arrival is the time of the clock: shortly after the logs were written.
var arrival = time.Date(2026, 11, 20, 10, 5, 0, 0, time.UTC)

// logBytes is the size of the logs of benchmarks, some 10,000 lines. A file is
// larger, so that the fixed cost per file does not dominate.
const (
	logBytes  = 4 << 20
	fileBytes = 32 << 20
)

// once caches values that are the same in every run of a benchmark.
func once[K comparable, V any](make func(K) V) func(K) V {
	var mu sync.Mutex
	known := map[K]V{}
	return func(k K) V {
		mu.Lock()
		defer mu.Unlock()
		v, ok := known[k]
		if !ok {
			v = make(k)
			known[k] = v
		}
		return v
	}
}

// workload is one log and one set of rules.
type workload struct {
	kind  traffic.Kind
	rules int
}

func (w workload) String() string { return fmt.Sprintf("%s/rules=%d", w.kind, w.rules) }

func (w workload) signatures() []traffic.Rule {
	if w.kind == traffic.Published {
		return traffic.PublishedRules()
	}
	return traffic.Rules(w.rules)
}

// workloads are all sensible combinations.
func workloads() []workload {
	var out []workload
	for _, kind := range traffic.Kinds() {
		if kind == traffic.Published {
			out = append(out, workload{kind, len(traffic.PublishedRules())})
			continue
		}
		for _, n := range []int{10, 100, 1000, 5000} {
			out = append(out, workload{kind, n})
		}
	}
	return out
}

var (
	logOf  = once(func(kind traffic.Kind) []byte { return traffic.Bytes(logBytes, traffic.Options{Kind: kind}) })
	fileOf = once(func(kind traffic.Kind) []byte { return traffic.Bytes(fileBytes, traffic.Options{Kind: kind}) })
)

// loaded is a rule set as the daemon uses it.
type loaded struct {
	set     *rules.Set
	program *matcher.Program
}

// set names the rules of a workload; all kinds but one use the same.
func (w workload) set() workload {
	if w.kind != traffic.Published {
		w.kind = ""
	}
	return w
}

func programOf(w workload) loaded { return programs(w.set()) }

var programs = once(func(w workload) loaded {
	set, err := load(w.signatures())
	if err != nil {
		panic(err)
	}
	program, err := compile(set)
	if err != nil {
		panic(err)
	}
	return loaded{set, program}
})

// load reads the rules as a pack.
func load(signatures []traffic.Rule) (*rules.Set, error) {
	files := fstest.MapFS{}
	for i := 0; i*1000 < len(signatures); i++ {
		name := fmt.Sprint("part-", i)
		part := signatures[i*1000 : min(i*1000+1000, len(signatures))]
		files[name+".yaml"] = &fstest.MapFile{Data: traffic.Pack(name, part)}
	}
	return rules.Load(files)
}

func compile(set *rules.Set) (*matcher.Program, error) {
	began := time.Now()
	return matcher.CompileTimed(set, func() time.Duration { return time.Since(began) })
}

// pod is the stream of all lines.
var pod = matcher.Labels{"namespace": "capi-system", "pod": "capi-controller-manager-7d4b9c", "container": "manager", "node": "n1"}

func newStream(kind traffic.Kind) *matcher.Stream {
	opt := matcher.StreamOptions{Format: matcher.FormatCRI}
	if kind == traffic.Mix {
		opt = matcher.StreamOptions{TextTime: true}
	}
	return matcher.NewStream(pod, opt)
}

// blocks splits a log at line ends into pieces of at most size bytes, unless a
// line is longer.
func blocks(log []byte, size int) (out [][]byte) {
	for len(log) > 0 {
		n := bytes.LastIndexByte(log[:min(size, len(log))], '\n') + 1
		if n == 0 {
			n = bytes.IndexByte(log, '\n') + 1
		}
		out, log = append(out, log[:n]), log[n:]
	}
	return out
}

func TestBlocks(t *testing.T) {
	f := func(log string, size int, want ...string) {
		t.Helper()
		var got []string
		for _, b := range blocks([]byte(log), size) {
			got = append(got, string(b))
		}
		require.Equal(t, want, got)
	}
	f("", 4)
	f("a\nb\nccccc\n", 4, "a\nb\n", "ccccc\n")
	f("a\nb\n", 100, "a\nb\n")
}
