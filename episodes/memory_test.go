package episodes

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// TestMemoryPerKey measures what the engine keeps of one key, with a line of 200
// bytes: go test -run TestMemoryPerKey -v ./episodes
func TestMemoryPerKey(t *testing.T) {
	const keys = 5000
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	f := func(name string, most uint64, change func(*rules.Rule)) {
		t.Helper()
		r := rule(func(r *rules.Rule) {
			r.By, r.Limit = []string{"namespace", "pod"}, 2*keys
			change(r)
		})
		b := &bench{t: t, set: &rules.Set{Rules: []*rules.Rule{r}}}
		b.e = b.engine(Config{MaxActive: 4 * keys, MaxPerNamespace: 4 * keys, MaxKeys: 4 * keys})
		line := strings.Repeat("x", 200)
		before := held()
		for i := range keys {
			b.take(time.Second, lineHit(r, 0, time.Second, line, "team-a", fmt.Sprintf("pod-%06d", i)))
			b.e.Evaluate(at(time.Second))
		}
		each := (held() - before) / keys
		t.Logf("%s: %d bytes a key", name, each)
		require.LessOrEqual(t, each, most, name)
		runtime.KeepAlive(b)
	}
	f("open episode", 4096, func(*rules.Rule) {})
	f("pending episode with clear", 4096, func(r *rules.Rule) { r.For, r.Clear = time.Hour, &rules.ClearOrUnless{} })
	f("window of one line", 2048, func(r *rules.Rule) { r.Count, r.Within = 3, time.Hour })
	f("sequence of one line", 2048, func(r *rules.Rule) {
		r.Sequence, r.Within, r.Steps = true, time.Hour, make([]rules.Step, 2)
	})
}
