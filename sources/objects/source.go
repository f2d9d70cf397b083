package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/internal/kube"
	"crowsnest/internal/times"
	"crowsnest/sources"
)

// Source writes the state of objects as lines. It is safe for concurrent use.
type Source struct {
	output
	cfg     Config
	readers []*reader
	pods    *reader // reader of pods; nil if pods are not read

	// turn is held while lines are written or objects change. It serialises the readers,
	// because they share streams. turn is locked before mu.
	turn       sync.Mutex
	comparison comparison

	room objectQuota // shared by the objects of all readers; guarded by turn; changes also require mu
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg = cfg.withDefaults()
	s := &Source{cfg: cfg, room: newRoom(cfg.MaxObjects), output: output{
		name: cfg.Name, components: cfg.Components(), labels: cfg.Labels, clock: cfg.Clock, streams: map[streamKey]*stream{},
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: cfg.Transport}),
		status: sources.Status{Name: cfg.Name, Errors: map[string]int64{"read": 0}, Losses: map[string]sources.Loss{}},
	}}
	for _, name := range cfg.Kinds {
		r := &reader{s: s, subject: subject{resource: kind(name)}, objects: map[string]*object{}, restored: map[string]*object{}}
		s.readers, s.read = append(s.readers, r), append(s.read, r.run)
		switch k := kind(name); {
		case k == pods:
			s.pods = r
		case cfg.Machines != nil && k == nodes:
			s.comparison.nodes = r
		case cfg.Machines != nil && k == machines:
			s.comparison.machines = r
		}
	}
	return s
}

// Info implements sources.Source.
func (s *Source) Info() sources.Info { return sources.Info{Remote: true, Images: s} }

// Image returns the image of a container, or "" if pods are not read or the pod is unknown.
func (s *Source) Image(namespace, pod, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == nil {
		return ""
	}
	o := s.pods.objects[namespace+"/"+pod]
	if o == nil {
		return ""
	}
	of := internWord(name)
	for _, f := range o.facts {
		if f.view == containersView && f.name == of {
			return f.container.image.Value()
		}
	}
	return ""
}

// Running implements sources.Images.
func (s *Source) Running(trusted func(namespace string) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[word]bool{}
	for _, r := range s.readers {
		for _, o := range r.objects {
			for _, v := range o.versions {
				seen[v] = true
			}
			for _, f := range o.facts {
				if f.view == containersView && trusted(o.namespace) {
					seen[f.container.image] = true
				}
			}
		}
	}
	var out []string
	for w := range seen {
		out = append(out, w.Value())
	}
	slices.Sort(out)
	return out
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.copyStatus()
	st.LeftOut = s.room.leftOutOf()
	if st.Up && st.Idle == "" && s.room.used == 0 && len(st.LeftOut) == 0 {
		st.Idle, st.IdleReason = "the API server has no object of the kinds, or none that may be listed; correct kinds", sources.IdleNoLogs
	}
	return st
}

func (s *Source) updateStatus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.status
	st.Error, st.Idle = "", "the API server has none of the kinds; install what defines them, or name others in kinds"
	st.Absent = nil
	ready := true
	for _, r := range s.readers {
		st.Error = cmp.Or(st.Error, r.problem)
		ready = ready && (r.synced || r.absent)
		if r.absent {
			st.Absent = append(st.Absent, string(r.subject.resource))
		} else {
			st.Idle = ""
		}
	}
	st.Up = ready && st.Error == ""
	st.Opened = st.Opened || st.Up
}

// advanceWatermark advances the watermark to the time up to which all kinds that the API server has were read. A kind
// that appears later does not lower the watermark, because its lines have the time of reading. The caller holds turn.
func (s *Source) advanceWatermark() {
	var at, absent time.Time
	for _, r := range s.readers {
		switch {
		case r.absent:
			absent = times.Max(absent, r.progress)
		case r.progress.IsZero():
			return
		case at.IsZero() || r.progress.Before(at):
			at = r.progress
		}
	}
	if at.IsZero() {
		at = absent
	}
	s.withLock(func() {
		// If a stream had no line for three intervals, its namespace no longer has objects.
		maps.DeleteFunc(s.streams, func(_ streamKey, st *stream) bool { return at.Sub(st.status.LastRead) > 3*s.cfg.Interval })
		s.status.Watermark = at
	})
	s.pipe.AdvanceWatermark(s.cfg.Name, at)
}

// positions holds the facts that were written about each object. It is saved, so that after a
// restart the source finds facts that changed or no longer hold.
type positions struct {
	Kinds  map[string]json.RawMessage `json:"kinds,omitempty"` // encoded kindPositions; the key is the kind
	Losses map[string]sources.Loss    `json:"losses,omitempty"`
	// Machines are the Nodes and Machines without a counterpart in the last comparison.
	Machines unpaired `json:"machines,omitzero"`
}

// kindPositions holds the facts about the objects of one kind. A fact consists of four numbers: its view, the indexes
// of its name and of its value in Words, and a number whose meaning depends on the view. That number is the start of a
// phase in seconds since 1970, the state of a Lease, or zero.
type kindPositions struct {
	Kind    string             `json:"kind"` // kind of the objects, such as Machine
	Words   []string           `json:"words"`
	Objects map[string][]int64 `json:"objects"`
}

const numbersOfFact = 4

// Positions returns the facts that were written about each object. It does not block.
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
	b, _ := json.Marshal(out) // this cannot fail
	return b
}

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
		for _, f := range listFacts(one) {
			add(key, f, one.lease)
		}
	}
	b, _ := json.Marshal(out) // this cannot fail
	return b
}

// isQuiet reports whether no alert can be about the object. This is true for a pod that runs or has completed. Such
// pods need not be saved, because a restart need not detect their end. There may be many of them.
func (o *object) isQuiet() bool {
	isPod, p := false, o.phase()
	for _, f := range o.facts {
		if f.view != containersView {
			continue
		}
		isPod = true
		if f.value == internWord("waiting") || f.value == internWord("terminated") && f.container.exit != 0 || f.count > 0 {
			return false
		}
	}
	return isPod && !o.isDeleted() && p != nil && (p.value == internWord("Running") || p.value == internWord("Succeeded"))
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
	restored := make([]map[string]*object, len(s.readers))
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

func (k kindPositions) decodeFacts() (map[string]*object, error) {
	out := make(map[string]*object, len(k.Objects))
	for key, numbers := range k.Objects {
		one := &object{name: key}
		if namespace, name, ok := strings.Cut(key, "/"); ok {
			one.namespace, one.name = namespace, name
		}
		for n := range slices.Chunk(numbers, numbersOfFact) {
			if len(n) < numbersOfFact || n[0] < 0 || n[0] > int64(containersView) || max(n[1], n[2]) >= int64(len(k.Words)) || min(n[1], n[2]) < 0 {
				return nil, fmt.Errorf("the saved data of %s is damaged", key)
			}
			name, value := k.Words[n[1]], k.Words[n[2]]
			if view(n[0]) == leasesView {
				one.lease = &lease{holder: internWord(value), renewed: name, state: leaseState(n[3])}
				continue
			}
			f := one.addFact(view(n[0]), name, value, "", time.Time{}, "")
			if f.view == phasesView {
				f.since, f.hidden = time.Unix(n[3], 0), true // its line is written again, because its reason and message were not saved
			}
		}
		out[key] = one
	}
	return out, nil
}
