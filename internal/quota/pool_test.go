package quota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// poolModel shares a pool in the obvious way: it scans everything each time.
type poolModel struct {
	t        *rapid.T
	bounds   Bounds
	limit    int // of a rule
	entries  map[string]*modelEntry
	clock    int
	touched  map[string]int // by class and tenant, and by rule and tenant
	evicted  []string
	inserted *modelEntry
}

type modelEntry struct {
	key, tenant, rule string
	class             Class
	lines, used       int
}

// infra is the tenant that is infrastructure.
func infra(tenant string) bool { return tenant == "q" }

// of charges the entry to a tenant.
func (x modelEntry) of(tenant string) modelEntry {
	x.tenant, x.class = tenant, x.class%Infrastructure
	if infra(tenant) {
		x.class += Infrastructure
	}
	return x
}

func (x *modelEntry) account() string { return fmt.Sprint(x.class, x.tenant) }
func (x *modelEntry) cell() string    { return x.rule + "/" + x.tenant }

func (m *poolModel) use(x *modelEntry) {
	m.clock++
	x.used = m.clock
	m.touched[x.account()], m.touched[x.cell()] = m.clock, m.clock
	m.inserted = x
}

// put adds an entry, or uses and resizes one that is there.
func (m *poolModel) put(x modelEntry) {
	x = x.of(x.tenant)
	old := m.entries[x.key]
	if old == nil {
		old = &x
		m.entries[x.key] = old
	}
	moved := old.of(x.tenant)
	entries := func(account string) int {
		return m.sum(InEntries, func(e *modelEntry) bool { return e.account() == account })
	}
	if moved.class > old.class || moved.class == old.class && entries(moved.account())+1 < entries(old.account()) {
		*old = moved
	}
	old.lines = x.lines
	m.use(old)
	m.squeeze()
}

func (m *poolModel) sum(by int, of func(*modelEntry) bool) int {
	n := 0
	for _, x := range m.entries {
		if of(x) {
			n += Load{1, x.lines}[by]
		}
	}
	return n
}

func (m *poolModel) squeeze() {
	for _, side := range []bool{false, true} {
		inRule := func(x *modelEntry) bool { return x.rule == m.inserted.rule && infra(x.tenant) == side }
		for m.sum(InEntries, inRule) > m.limit {
			m.evict(m.heaviest(InEntries, (*modelEntry).cell, inRule))
		}
	}
	for by := range m.bounds[Ordinary] {
		for {
			c, over := m.over(by)
			if !over {
				break
			}
			account := m.heaviest(by, (*modelEntry).account, func(x *modelEntry) bool { return x.class == c })
			cell := m.heaviest(by, (*modelEntry).cell, func(x *modelEntry) bool { return x.account() == account })
			if !m.evict(cell) {
				break
			}
		}
	}
}

func (m *poolModel) over(by int) (Class, bool) {
	for c := range Classes {
		if m.sum(by, func(x *modelEntry) bool { return x.class <= c }) > m.bounds[c][by] {
			return c, true
		}
	}
	return 0, false
}

// heaviest returns the name with the greatest load; of equal ones, the least recently used.
// That load is never below an equal share.
func (m *poolModel) heaviest(by int, name func(*modelEntry) string, of func(*modelEntry) bool) string {
	loads, all := map[string]int{}, 0
	for _, x := range m.entries {
		if of(x) {
			loads[name(x)] += Load{1, x.lines}[by]
			all += Load{1, x.lines}[by]
		}
	}
	best := ""
	for k, n := range loads {
		if best == "" || n > loads[best] || n == loads[best] && m.touched[k] < m.touched[best] {
			best = k
		}
	}
	require.GreaterOrEqual(m.t, loads[best]*len(loads), all, "below an equal share")
	return best
}

// evict evicts the least recently used entry of a cell, but never the newest of all.
func (m *poolModel) evict(cell string) bool {
	var oldest *modelEntry
	for _, x := range m.entries {
		if x.cell() == cell && x != m.inserted && (oldest == nil || x.used < oldest.used) {
			oldest = x
		}
	}
	if oldest == nil {
		return false
	}
	delete(m.entries, oldest.key)
	m.evicted = append(m.evicted, oldest.key)
	return true
}

// A pool evicts what the model evicts, in the same order, and counts exactly.
func TestPoolsAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := NewBounds(
			Load{rapid.IntRange(1, 12).Draw(t, "entries"), rapid.IntRange(1, 40).Draw(t, "lines")},
			Load{rapid.IntRange(0, 12).Draw(t, "infrastructure entries"), rapid.IntRange(0, 40).Draw(t, "infrastructure lines")})
		m := &poolModel{t: t, bounds: bounds, limit: rapid.IntRange(1, 10).Draw(t, "limit"), entries: map[string]*modelEntry{}, touched: map[string]int{}}
		r := NewPool(bounds, infra)
		var evicted []string
		caches := map[string]*Cache[string]{}
		for i, name := range []string{"a", "b", "C"} {
			c := Ordinary
			if i == 2 {
				c = Critical
			}
			caches[name] = NewCache(nil, c, r, m.limit, func(_, v, _ string) { evicted = append(evicted, v) })
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "C"}).Draw(t, "rule")
			key := name + rapid.StringMatching("[a-p]").Draw(t, "key")
			tenant := rapid.StringMatching("[p-t]").Draw(t, "tenant")
			lines := rapid.IntRange(0, 9).Draw(t, "lines")
			k := caches[name]
			if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
				k.Delete(key)
				delete(m.entries, key)
				continue
			}
			k.Add(key, tenant, key, lines)
			m.put(modelEntry{key: key, tenant: tenant, rule: name, class: k.class, lines: lines})
			require.Equal(t, m.evicted, evicted)
			requireExact(t, m, r, caches)
		}
		for _, k := range caches {
			k.Purge()
		}
		require.Equal(t, [Classes]Load{}, r.Used)
		for c := range Classes {
			require.Empty(t, r.accounts[c].all)
		}
	})
}

func requireExact(t *rapid.T, m *poolModel, r *Pool, caches map[string]*Cache[string]) {
	n := 0
	for name, k := range caches {
		for x, tenant := range k.Values() {
			n++
			require.Equal(t, m.entries[x.Key].tenant, tenant)
		}
		require.Equal(t, m.sum(InEntries, func(x *modelEntry) bool { return x.rule == name }), k.Used())
	}
	require.Len(t, m.entries, n)
	for c := range Classes {
		for by := range r.bounds[c] {
			require.Equal(t, m.sum(by, func(x *modelEntry) bool { return x.class == c }), r.Used[c][by])
		}
	}
}

// A rule whose severity changes keeps what it has, in the other class.
func TestReclass(t *testing.T) {
	infrastructure := ""
	r := NewPool(NewBounds(Load{10, 10}, Load{10, 10}), func(tenant string) bool { return tenant == infrastructure })
	k := NewCache(nil, Ordinary, r, 10, func(_, _, _ string) {})
	for i := range 6 {
		k.Add(fmt.Sprint(i), fmt.Sprint("ns", i%2), "v", 1)
	}
	k.Reclass(Critical)
	require.Equal(t, [Classes]Load{Critical: {6, 6}}, r.Used)
	require.Equal(t, 3, r.Entries(Critical, "ns1"))
	require.Equal(t, []string{"0", "2", "4", "1", "3", "5"}, keysOf(k))
	infrastructure = "ns1"
	k.Reclass(Critical)
	require.Equal(t, [Classes]Load{Critical: {3, 3}, Critical + Infrastructure: {3, 3}}, r.Used)
}

func keysOf[V any](k *Cache[V]) (out []string) {
	for x := range k.entries() {
		out = append(out, x.Key)
	}
	return out
}

// Fingerprints are shared like a pool, over a restart as well.
func TestFingerprintsAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		f := NewFingerprintSet(limit, nil)
		all := Load{limit, 1 << 30}
		m := &poolModel{t: t, bounds: Bounds{all, all, all, all}, limit: 1 << 30, entries: map[string]*modelEntry{}, touched: map[string]int{}}
		for range rapid.IntRange(1, 300).Draw(t, "lines") {
			id := uint64(rapid.IntRange(0, 80).Draw(t, "id"))
			tenant := rapid.StringMatching("[r-t]").Draw(t, "tenant") // none is infrastructure
			key := fmt.Sprint(id)
			old := m.entries[key]
			require.Equal(t, old != nil, f.Add(id, tenant))
			if old != nil {
				m.use(old) // a repeat changes no share, whichever tenant it is from
				continue
			}
			m.put(modelEntry{key: key, tenant: tenant})
			require.Equal(t, len(m.entries), f.Len())
			require.EqualValues(t, len(m.evicted), f.Evicted)
			for tenant, h := range f.group.sides[0].tenants {
				require.Equal(t, m.sum(InEntries, func(x *modelEntry) bool { return x.tenant == tenant }), h.load[InEntries])
			}
		}
		again := NewFingerprintSet(limit, nil)
		again.Load(f.Save())
		saved, shares := f.Save()
		twice, same := again.Save()
		require.Equal(t, saved, twice)
		require.Equal(t, shares, same)
		for key := range m.entries {
			var id uint64
			_, err := fmt.Sscan(key, &id)
			require.NoError(t, err)
			require.True(t, again.Add(id, "other"))
		}
	})
}
