package daemon

import (
	"maps"
	"slices"
	"sync"

	"crowsnest/rules"
)

// reading knows which selectors the sources of this process serve. It is safe for concurrent use.
type reading struct {
	mu      sync.Mutex
	serves  map[string]func(rules.Selector) bool // selectors that each source serves; nil means all
	set     *rules.Set                           // rules for which unread was computed
	changed bool                                 // whether serves has changed since then
	unread  []string
}

func (x *reading) add(source string, serves func(rules.Selector) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.serves == nil {
		x.serves = map[string]func(rules.Selector) bool{}
	}
	x.serves[source], x.changed = serves, true
}

func (x *reading) remove(source string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.serves, source)
	x.changed = true
}

// unservedSelectors returns the sorted selectors of active rules that no source serves. It is read-only.
func (x *reading) unservedSelectors(set *rules.Set) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.set == set && !x.changed {
		return x.unread
	}
	unread := map[string]bool{}
	for _, r := range set.Rules {
		if r.Mode == rules.ModeOff {
			continue
		}
		for from := range r.Selectors() {
			if !x.isServed(from) {
				unread[from.String()] = true
			}
		}
	}
	x.set, x.changed, x.unread = set, false, slices.Sorted(maps.Keys(unread))
	return x.unread
}

func (x *reading) isServed(from rules.Selector) bool {
	for _, serves := range x.serves {
		if serves == nil || serves(from) {
			return true
		}
	}
	return false
}
