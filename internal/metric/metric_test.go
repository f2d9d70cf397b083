package metric

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestCollector(t *testing.T) {
	type item struct {
		name string
		n    map[string]int64
	}
	type state struct {
		up    bool
		at    time.Time
		items []item
	}
	read := func() state {
		return state{up: true, items: []item{{"a", map[string]int64{"x": 1, "y": 0}}, {"b", nil}}}
	}
	c := New(read,
		Gauge("up", "Up.", func(s state) bool { return s.up }),
		Gauge("at_seconds", "Zero time.", func(s state) time.Time { return s.at }),
		ForEach(func(s state) []item { return s.items }, []string{"name"}, func(i item) []string { return []string{i.name} },
			Counter("kinds_total", "Kinds.", func(i item) int { return len(i.n) }),
			CounterBy("n_total", "By kind.", "kind", func(i item) map[string]int64 { return NonZero(i.n, true) })),
	)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP crowsnest_at_seconds Zero time.
# TYPE crowsnest_at_seconds gauge
crowsnest_at_seconds 0
# HELP crowsnest_kinds_total Kinds.
# TYPE crowsnest_kinds_total counter
crowsnest_kinds_total{name="a"} 2
crowsnest_kinds_total{name="b"} 0
# HELP crowsnest_n_total By kind.
# TYPE crowsnest_n_total counter
crowsnest_n_total{kind="x",name="a"} 1
# HELP crowsnest_up Up.
# TYPE crowsnest_up gauge
crowsnest_up 1
`)))
}
