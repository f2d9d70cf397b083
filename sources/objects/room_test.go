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

// machineOf returns a Machine of a namespace.
func machineOf(namespace, name, ready string) string {
	return strings.Replace(machineJSON(name, ready, "Running", ""), `"shop"`, `"`+namespace+`"`, 1)
}

// However many objects one tenant creates, in whatever order, those of others are read.
func TestRoomIsShared(t *testing.T) {
	const nodesPath = "/api/v1/nodes"
	a := newAPI(nodesPath+"=Node", machinesPath+"=Machine")
	for i := range 100 {
		a.put(machinesPath, machineOf("greedy", fmt.Sprint("g", i), "True"))
	}
	a.put(nodesPath, `{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	for i := range 4 {
		a.put(machinesPath, machineOf("shop", fmt.Sprint("m", i), "True"))
	}
	cfg := Config{Kinds: []string{"nodes", "machines.cluster.x-k8s.io"}, MaxObjects: 20}
	var saved json.RawMessage
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(time.Second)
		require.Equal(t, map[string]int64{"greedy": 85}, s.Status().LeftOut)
		require.Contains(t, s.Status().Losses["objects"].Path, "machines.cluster.x-k8s.io greedy/g")
		p.take()
		for i := range 4 {
			a.put(machinesPath, machineOf("shop", fmt.Sprint("m", i), "False"))
			a.put(machinesPath, machineOf("late", fmt.Sprint("l", i), "False"))
		}
		a.put(nodesPath, `{"metadata":{"name":"n2"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		for i := range 100 {
			a.put(machinesPath, machineOf("greedy", fmt.Sprint("g", i), "False"))
		}
		pass(time.Second)
		lines := p.take()
		for _, name := range []string{"shop/m0", "shop/m3", "late/l0", "late/l3", "n2"} {
			require.NotEmpty(t, only(lines, "object="+name+" "), name)
		}
		require.Empty(t, only(lines, "is gone"), "what is left out exists")
		require.Equal(t, map[string]int64{"greedy": 90}, s.Status().LeftOut)
		saved = s.Positions()
	})
	// A restart, with less room: what was known and is left out now is not gone.
	cfg.MaxObjects = 6
	inBubble(t, cfg, a, saved, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(2 * time.Minute)
		require.Empty(t, only(p.take(), "is gone"))
		require.Equal(t, int64(104), sum(s.Status().LeftOut))
		for i := range 100 {
			a.remove(machinesPath, fmt.Sprint("greedy/g", i))
		}
		for i := range 3 {
			a.remove(machinesPath, fmt.Sprint("late/l", i))
			a.remove(machinesPath, fmt.Sprint("shop/m", i))
		}
		pass(time.Second)
		p.take()
		pass(15 * time.Minute)
		require.Empty(t, s.Status().LeftOut, "there is room again")
		lines := p.take()
		require.NotEmpty(t, only(lines, "object=shop/m3 "))
		require.NotEmpty(t, only(lines, "object=late/l3 "))
		require.True(t, s.Status().Up)
	})
}

// Machines that are left out are not missing.
func TestRoomOfMachines(t *testing.T) {
	const nodesPath = "/api/v1/nodes"
	a := newAPI(nodesPath+"=Node", machinesPath+"=Machine")
	for i := range 3 {
		a.put(nodesPath, fmt.Sprintf(`{"metadata":{"name":"n%d"},"spec":{"providerID":"p%d"}}`, i, i))
		a.put(machinesPath, fmt.Sprintf(`{"metadata":{"namespace":"a","name":"m%d"},"spec":{"clusterName":"c","providerID":"p%d"},"status":{"nodeRef":{"name":"n%d"}}}`, i, i, i))
	}
	cfg := Config{Kinds: []string{"nodes", "machines.cluster.x-k8s.io"}, Machines: &Machines{}, MaxObjects: 5}
	inBubble(t, cfg, a, nil, func(s *Source, p *pipe, pass func(time.Duration)) {
		pass(3 * time.Minute)
		require.Equal(t, map[string]int64{"a": 1}, s.Status().LeftOut)
		require.Empty(t, only(p.take(), "machines :"), "nothing is concluded from an incomplete list")
	})
}

func sum(of map[string]int64) (n int64) {
	for _, x := range of {
		n += x
	}
	return n
}

// The status names the namespaces that lost the most.
func TestLeftOutIsBounded(t *testing.T) {
	m, r := newRoom(1000), &reader{}
	for i := range 30 {
		for n := range i + 1 {
			o := &object{namespace: fmt.Sprint("ns", i), name: fmt.Sprint(n)}
			require.True(t, m.noteLeftOut(r, o))
			require.False(t, m.noteLeftOut(r, o), "known")
		}
	}
	out := m.leftOutOf()
	require.Len(t, out, maxNamespaces+1)
	require.EqualValues(t, 30, out["ns29"])
	require.EqualValues(t, 10*11/2, out[otherNamespaces])
	require.EqualValues(t, 30*31/2, sum(out))
	require.Equal(t, 30*31/2, r.leftOut)
	m.maxOut = len(m.unremembered)
	require.True(t, m.noteLeftOut(r, &object{name: "more"}))
	require.EqualValues(t, 30*31/2, sum(m.leftOutOf()))
	r.round++
	m.forgetUnlisted(r)
	require.Empty(t, m.leftOutOf())
	require.Zero(t, r.leftOut)
}

// TestRoomModel: the room never holds more than it may, and
// no namespace that holds less than another is refused.
func TestRoomModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		m := newRoom(1 + random.IntN(30))
		r := &reader{objects: map[string]*object{}}
		held := map[string]int{}
		drop := func(key string) {
			o := r.objects[key]
			delete(r.objects, key)
			m.removePlace(r, o)
			held[o.namespace]--
		}
		for n := range 400 {
			if random.IntN(4) == 0 {
				for key := range r.objects {
					drop(key)
					break
				}
			}
			o := &object{namespace: []string{"", "a", "b", "c", "c", "c"}[random.IntN(6)], name: fmt.Sprint(n)}
			most := 0
			for namespace, k := range held {
				if namespace != "" {
					most = max(most, k)
				}
			}
			victim, full := m.chooseVictim(o.namespace)
			switch {
			case full:
				require.Equal(t, m.max, m.used)
				require.True(t, most == 0 || o.namespace != "" && held[o.namespace]+1 >= most)
				continue
			case victim.r != nil:
				require.Equal(t, m.max, m.used)
				require.Equal(t, most, held[r.objects[victim.key].namespace])
				drop(victim.key)
			}
			m.addPlace(r, o)
			r.objects[o.key()] = o
			held[o.namespace]++
			require.LessOrEqual(t, m.used, m.max)
			require.Len(t, r.objects, m.used)
		}
	}
}
