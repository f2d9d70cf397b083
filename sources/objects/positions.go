package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/sources"
)

// positions holds what was written about each object. It is saved, so that after a restart the
// source finds what changed and what is gone.
type positions struct {
	Kinds  map[string]json.RawMessage `json:"kinds,omitempty"` // encoded kindPositions, by kind
	Losses map[string]sources.Loss    `json:"losses,omitempty"`
	// Machines are the objects without a counterpart in the last comparison.
	Machines unpaired `json:"machines,omitzero"`
}

// kindPositions holds the facts about the objects of one kind. A fact consists of four numbers.
// These are its view, the indexes of its name and value in Words, and the number of savedFact.
type kindPositions struct {
	Kind    string             `json:"kind"` // kind of the objects, such as Machine
	Words   []string           `json:"words"`
	Objects map[string][]int64 `json:"objects"`
}

const numbersOfFact = 4

// saved is an object from the saved state.
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
			r.stored = r.encodeObjects()
		}
		out.Kinds[string(r.subject.resource)] = r.stored
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil // this cannot fail
	}
	return b
}

// encodeObjects encodes the facts that are saved. The caller holds mu.
func (r *reader) encodeObjects() json.RawMessage {
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
				f.name = internWord(lease.renewed)
			}
		}
		out.Objects[key] = append(out.Objects[key], int64(f.view), place(f.name), place(f.value), n)
	}
	for key, o := range r.objects {
		if o.isQuiet() {
			continue
		}
		for _, f := range listFacts(o) {
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
		return json.RawMessage("null") // this cannot fail
	}
	return b
}

// isQuiet reports whether no alert can be about the object, so that a restart need not find its
// end. This is so for pods that run or have completed. There may be many of them.
func (o *object) isQuiet() bool {
	return o.containers != nil && o.deleted.IsZero() && (o.phase.name == internWord("Running") || o.phase.name == internWord("Succeeded")) &&
		!slices.ContainsFunc(o.containers, func(c container) bool {
			return c.state == internWord("waiting") || c.state == internWord("terminated") && c.exit != 0 || c.restarts > 0
		})
}

// Restore restores the state that was saved before the restart.
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
			restored[i], err = kinds[i].decodeFacts()
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

// decodeFacts decodes the facts about each object.
func (k kindPositions) decodeFacts() (map[string]*saved, error) {
	out := make(map[string]*saved, len(k.Objects))
	for key, numbers := range k.Objects {
		one := &saved{}
		for n := range slices.Chunk(numbers, numbersOfFact) {
			if len(n) < numbersOfFact || n[0] < 0 || n[0] > int64(containersView) || max(n[1], n[2]) >= int64(len(k.Words)) || min(n[1], n[2]) < 0 {
				return nil, fmt.Errorf("the saved data of %s is damaged", key)
			}
			one.addFact(view(n[0]), internWord(k.Words[n[1]]), internWord(k.Words[n[2]]), n[3])
		}
		out[key] = one
	}
	return out, nil
}

// addFact adds a fact to the saved object. number is as in the saved state.
func (s *saved) addFact(v view, name, value word, number int64) {
	f := fact{view: v, name: name, value: value, reason: internWord("")}
	switch v {
	case phasesView:
		s.since = time.Unix(number, 0)
	case leasesView:
		s.lease = &lease{holder: value, renewed: name.Value(), state: leaseState(number)}
		f.name, f.count, f.hidden = internWord(""), int32(number), leaseState(number) == leaseUnknown
	}
	s.facts = append(s.facts, f)
}

// savedObject returns the saved state of the object now.
func (s *saved) savedObject(now *object) *object {
	out := &object{namespace: now.namespace, name: now.name, uid: now.uid, lease: s.lease}
	for _, f := range s.facts {
		if f.view == phasesView {
			out.phase = phase{name: f.value, since: s.since}
		}
	}
	return out
}

// namedObject returns an object with the namespace and name of a key.
func namedObject(key string) *object {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return &object{namespace: namespace, name: name}
	}
	return &object{name: key}
}
