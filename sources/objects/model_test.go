package objects

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// held applies lines to what a reader of lines believes: the value of each condition and
// phase that holds.
func held(t *testing.T, believed map[string]string, lines []string) {
	t.Helper()
	field := func(line, name string) string {
		_, rest, _ := strings.Cut(line, " "+name+"=")
		value, _, _ := strings.Cut(rest, " ")
		return value
	}
	for _, l := range lines {
		component, _, _ := strings.Cut(l, " ")
		key := component + " " + field(l, "object") + " " + field(l, "type")
		value := field(l, "status") + field(l, "phase")
		if strings.Contains(l, `is gone" `) {
			require.Contains(t, believed, key, "the end of what never was, or twice: %s", l)
			delete(believed, key)
			continue
		}
		was, known := believed[key]
		if former := field(l, "was"); former != "" {
			require.Equal(t, was, former, l)
			require.NotEqual(t, value, former, l)
		} else if known && component != "deleting" {
			require.Equal(t, was, value, "a change without its former value: %s", l)
		}
		believed[key] = value
	}
}

// TestModel: whatever happens to objects, the API server and this process, a reader of the
// lines knows in the end what holds, and each change and each end is told once.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		a := newAPI(machinesPath + "=Machine")
		believed := map[string]string{}
		actual := map[string]string{}
		var saved json.RawMessage
		for start := range 4 { // starts of the process
			inBubble(t, Config{Kinds: []string{"machines.cluster.x-k8s.io"}, Interval: 30 * time.Second}, a, saved, func(s *Source, p *pipe, pass func(time.Duration)) {
				for range 15 {
					step(random, a, actual)
					pass(time.Duration(random.IntN(40)) * time.Second / 4)
				}
				settled := start == 3 || random.IntN(2) == 0
				if settled {
					a.set(func() { a.fault = 0 })
					pass(2 * time.Minute)
				}
				held(t, believed, p.take())
				saved = s.Positions()
				if !settled {
					return
				}
				want := map[string]string{}
				for name, ready := range actual {
					want["conditions shop/"+name+" Ready"] = ready
					want["phases shop/"+name+" "] = "Phase" + ready
				}
				require.Equal(t, want, believed, "seed %d", seed)
			})
			for range random.IntN(4) { // while nothing runs
				step(random, a, actual)
			}
			a.fault = 0
		}
	}
}

// step changes one object, or the API server.
func step(random *rand.Rand, a *api, actual map[string]string) {
	name := fmt.Sprint("m", random.IntN(4))
	switch n := random.IntN(10); {
	case n < 6:
		ready := []string{"True", "False", "Unknown"}[random.IntN(3)]
		a.put(machinesPath, machineJSON(name, ready, "Phase"+ready, ""))
		actual[name] = ready
	case n < 8:
		if actual[name] != "" {
			a.remove(machinesPath, "shop/"+name)
			delete(actual, name)
		}
	case n < 9:
		a.set(func() { a.fault = []int{503, 429, 410, 401, 500}[random.IntN(5)] })
	default:
		a.set(func() { a.fault = 0 })
	}
}
