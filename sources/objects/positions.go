package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/sources"
)

// positions are what is saved: what was written about each object, so that a restart
// finds what changed and what is gone.
type positions struct {
	Kinds  map[string]json.RawMessage `json:"kinds,omitempty"` // kindPositions
	Losses map[string]sources.Loss    `json:"losses,omitempty"`
	// Machines are the objects without a counterpart in the last comparison.
	Machines unpaired `json:"machines,omitzero"`
}

// kindPositions are the facts about the objects of one kind. A fact has four numbers: its
// view, the places of its name and value in Words, and the number of savedFact.
type kindPositions struct {
	Kind    string             `json:"kind"` // such as Machine
	Words   []string           `json:"words"`
	Objects map[string][]int64 `json:"objects"`
}

const numbersOfFact = 4

// saved is an object of the saved state.
type saved struct {
	facts []fact
	since time.Time // start of the phase
	lease *lease
}

// Positions returns what was written about each object. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := positions{Kinds: map[string]json.RawMessage{}, Losses: s.status.Losses, Machines: s.comparison.last}
	for _, r := range s.readers {
		if r.stored == nil {
			r.stored = r.store()
		}
		out.Kinds[string(r.subject.resource)] = r.stored
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // cannot fail
	}
	return b
}

// store encodes what is saved of the objects. The caller holds mu.
func (r *reader) store() json.RawMessage {
	out := kindPositions{Kind: r.subject.kind, Objects: make(map[string][]int64, len(r.objects))}
	places := map[word]int64{}
	place := func(w word) int64 {
		i, ok := places[w]
		if !ok {
			i = int64(len(out.Words))
			places[w] = i
			out.Words = append(out.Words, w.Value())
		}
		return i
	}
	add := func(key string, f fact, lease *lease) {
		n := int64(0)
		switch {
		case f.view == phasesView:
			n = f.since.Unix()
		case lease != nil:
			n = int64(lease.state)
			if lease.state == leaseStale {
				f.name = wordOf(lease.renewed)
			}
		}
		out.Objects[key] = append(out.Objects[key], int64(f.view), place(f.name), place(f.value), n)
	}
	for key, o := range r.objects {
		if o.quiet() {
			continue
		}
		for f := range facts(o) {
			add(key, f, o.lease)
		}
	}
	for key, one := range r.restored {
		for _, f := range one.facts {
			f.since = one.since
			add(key, f, one.lease)
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return json.RawMessage("null") // cannot fail
	}
	return b
}

// quiet reports whether no alert can be about an object, so that its end need not be
// found after a restart: a pod that runs, or has completed. There may be many.
func (o *object) quiet() bool {
	return o.containers != nil && o.deleted.IsZero() && (o.phase.name == wordOf("Running") || o.phase.name == wordOf("Succeeded")) &&
		!slices.ContainsFunc(o.containers, func(c container) bool {
			return c.state == wordOf("waiting") || c.state == wordOf("terminated") && c.exit != 0 || c.restarts > 0
		})
}

// Restore sets what was written before the restart.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in positions
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	kinds := make([]kindPositions, len(s.readers))
	restored := make([]map[string]*saved, len(s.readers))
	for i, r := range s.readers {
		name := string(r.subject.resource)
		var err error
		if one := in.Kinds[name]; len(one) > 0 {
			err = json.Unmarshal(one, &kinds[i])
		}
		if err == nil {
			restored[i], err = kinds[i].restore()
		}
		if err != nil {
			return fmt.Errorf("read the positions of %s: %s: %w", s.cfg.Name, name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.readers {
		r.restored, r.stored, r.subject.kind = restored[i], nil, kinds[i].Kind
	}
	s.comparison.last = in.Machines
	if in.Losses != nil {
		s.status.Losses = in.Losses
	}
	return nil
}

// restore decodes the facts about each object.
func (k kindPositions) restore() (map[string]*saved, error) {
	out := make(map[string]*saved, len(k.Objects))
	for key, numbers := range k.Objects {
		one := &saved{}
		for n := range slices.Chunk(numbers, numbersOfFact) {
			if len(n) < numbersOfFact || n[0] < 0 || n[0] > int64(containersView) || max(n[1], n[2]) >= int64(len(k.Words)) || min(n[1], n[2]) < 0 {
				return nil, fmt.Errorf("the facts of %s are damaged", key)
			}
			one.add(view(n[0]), wordOf(k.Words[n[1]]), wordOf(k.Words[n[2]]), n[3])
		}
		out[key] = one
	}
	return out, nil
}

// add adds a fact as it was stored.
func (s *saved) add(v view, name, value word, number int64) {
	f := fact{view: v, name: name, value: value, reason: wordOf("")}
	switch v {
	case phasesView:
		s.since = time.Unix(number, 0)
	case leasesView:
		s.lease = &lease{holder: value, renewed: name.Value(), state: leaseState(number)}
		f.name, f.count, f.hidden = wordOf(""), int32(number), leaseState(number) == leaseUnknown
	}
	s.facts = append(s.facts, f)
}

// object returns the object as far as it was saved, for the object that was read now.
func (s *saved) object(now *object) *object {
	out := &object{namespace: now.namespace, name: now.name, uid: now.uid, lease: s.lease}
	for _, f := range s.facts {
		if f.view == phasesView {
			out.phase = phase{name: f.value, since: s.since}
		}
	}
	return out
}

// named returns an object with the name that a key has.
func named(key string) *object {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return &object{namespace: namespace, name: name}
	}
	return &object{name: key}
}
