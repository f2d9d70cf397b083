package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/kube"
)

const (
	// lookEvery is the interval at which a kind is looked for that the API server does not
	// have.
	lookEvery = time.Minute
	// removedAfter is how long a kind that had objects must be missing until they are gone:
	// an API server that starts does not have all kinds yet.
	removedAfter = 3 * time.Minute
	// maxGap is how much of the time between two proofs of progress counts as time in which
	// a Lease could be renewed. Proofs are some seven seconds apart.
	maxGap = 10 * time.Second
	// relistAfter is the least time between two lists of a kind of which objects were left
	// out.
	relistAfter = 10 * time.Minute
)

// reader reads the objects of one kind.
type reader struct {
	s       *Source
	subject subject

	// Guarded by turn.
	round    int  // counts lists
	doubted  bool // something failed since the last proof
	due      time.Time
	progress time.Time // up to which everything was read; zero if unknown
	listed   time.Time // when the last list was complete
	stop     func()    // ends following, so that everything is listed again

	// Guarded by mu, and changed by the holder of turn only.
	objects  map[string]*object
	restored map[string]*saved // objects of the saved state that were not listed yet
	stored   json.RawMessage   // the positions; nil if they changed
	synced   bool
	absent   bool // the API server does not have the kind
	leftOut  int  // objects that the room has no place for
	problem  string

	missing time.Time // time since which the kind has been absent
	failed  int       // consecutive failures to look for the kind
}

func newReader(s *Source, k kind) *reader {
	return &reader{s: s, subject: subject{resource: k}, objects: map[string]*object{}, restored: map[string]*saved{}}
}

// run looks for the kind and follows its objects until ctx ends.
func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		at := r.s.cfg.Clock()
		found, err := find(ctx, r.s.client, r.subject.resource)
		path := found.Path
		r.subject.kind = cmp.Or(found.Kind, r.subject.kind)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.failed++
			wait = pause.Backoff(time.Second, kube.SlowRetry, r.failed)
			r.Failed(err, r.failed > 1)
		case path == "":
			r.failed = 0
			wait = pause.Jitter(r.lack(at))
		default:
			r.failed, r.missing = 0, time.Time{}
			r.follow(ctx, path)
			wait = time.Second
		}
		pause.Sleep(ctx, wait, nil)
	}
}

// lack records that the kind was absent at a time, and returns when to look again.
// Objects that were known are gone after removedAfter.
func (r *reader) lack(at time.Time) time.Duration {
	r.s.turn.Lock()
	if r.missing.IsZero() {
		r.missing = at
	}
	if at.Sub(r.missing) < removedAfter && len(r.objects)+len(r.restored) > 0 {
		r.s.turn.Unlock()
		r.report(fmt.Sprintf("the API server no longer has %s; if that lasts for %v, its objects count as removed", r.subject.resource, removedAfter))
		return min(max(time.Second, at.Sub(r.missing)), kube.SlowRetry)
	}
	r.round++
	r.removeUnlisted()
	r.progress = at
	r.s.set(func() { r.absent, r.synced, r.problem = true, false, "" })
	r.s.advanceWatermark()
	r.s.turn.Unlock()
	r.s.note()
	return lookEvery
}

// follow lists and watches the objects at a path, until ctx ends or the API server no
// longer has the path.
func (r *reader) follow(ctx context.Context, path string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.s.turn.Lock()
	r.progress, r.stop = time.Time{}, cancel // nothing at this path was read yet
	r.s.set(func() { r.absent = false })
	r.s.turn.Unlock()
	w := &kube.Watcher{Client: r.s.client, Path: path, Query: r.subject.resource.query(), Clock: r.s.cfg.Clock, Handler: r, Progress: r.proved}
	w.Run(ctx)
}

// Listing implements kube.Handler.
func (r *reader) Listing() { r.round++ }

// Changed implements kube.Handler.
func (r *reader) Changed(in json.RawMessage) error {
	o, cut, err := project(r.subject.resource, in)
	if k := r.subject.resource; err == nil && r.s.cfg.Machines != nil && (k == nodes || k == machines) {
		o.pairing, err = readPairing(in)
	}
	if err != nil {
		return err
	}
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	at := r.s.cfg.Clock()
	o.round, o.read = r.round, at
	if cut {
		r.lose("parts", o)
	}
	last := r.objects[o.key()]
	if last != nil && last.uid != o.uid {
		r.remove(last, slices.Collect(facts(last)), at)
		last = nil
	}
	if last == nil {
		if !r.admit(o) {
			return nil
		}
		if was := r.restored[o.key()]; was != nil {
			last = was.object(o)
			o.follow(last, at)
			r.replace(o, was.facts, at)
			return nil
		}
	}
	o.follow(last, at)
	r.replace(o, slices.Collect(facts(last)), at)
	return nil
}

// replace replaces what is remembered of an object, of which some facts were known, and
// writes the changes. The caller holds turn.
func (r *reader) replace(o *object, before []fact, at time.Time) {
	found := changes(before, o)
	var lines []line
	for _, c := range found {
		text := ""
		if c.gone {
			text = r.subject.gone(o, c.fact)
		} else {
			text = r.subject.line(o, c.fact, c.was, at)
		}
		lines = append(lines, line{c.view, o.namespace, text})
	}
	r.s.write(lines, at, func() {
		last := r.objects[o.key()]
		if last == nil || len(found) > 0 {
			r.stored = nil
		}
		if last == nil {
			o.place = r.s.room.add(r, o)
			r.s.room.back(r, o.key())
		} else {
			o.place = last.place
		}
		r.objects[o.key()] = o
		delete(r.restored, o.key())
	})
}

// remove writes that the facts about an object no longer hold, and forgets it. The caller
// holds turn.
func (r *reader) remove(o *object, last []fact, at time.Time) {
	var lines []line
	for _, f := range last {
		lines = append(lines, line{f.view, o.namespace, r.subject.gone(o, f)})
	}
	r.s.write(lines, at, func() {
		r.forget(o.key())
	})
}

// forget forgets an object. The caller holds turn and mu.
func (r *reader) forget(key string) {
	if o := r.objects[key]; o != nil {
		delete(r.objects, key)
		r.s.room.remove(o.place, o.namespace)
	}
	delete(r.restored, key)
	r.stored = nil
}

// removeUnlisted removes what the last list did not have. The caller holds turn.
func (r *reader) removeUnlisted() {
	at := r.s.cfg.Clock()
	r.s.set(func() { r.s.room.forgetUnlisted(r) })
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		if o := r.objects[key]; o.round != r.round {
			r.remove(o, slices.Collect(facts(o)), at)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.restored)) {
		r.remove(named(key), r.restored[key].facts, at)
	}
}

// Deleted implements kube.Handler.
func (r *reader) Deleted(_ context.Context, in json.RawMessage) error {
	o, _, err := project(r.subject.resource, in)
	if err != nil {
		return err
	}
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if last := r.objects[o.key()]; last != nil {
		r.remove(last, slices.Collect(facts(last)), r.s.cfg.Clock())
	}
	r.s.set(func() { r.s.room.back(r, o.key()) })
	return nil
}

// Listed implements kube.Handler.
func (r *reader) Listed(context.Context) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	r.removeUnlisted()
	r.listed = r.s.cfg.Clock()
	if r.due.IsZero() {
		r.due = r.s.cfg.Clock().Add(r.s.cfg.Interval)
	}
	r.s.set(func() { r.synced = true })
	r.s.note()
}

// Passed implements kube.Handler.
func (r *reader) Passed() {
	r.s.mu.Lock()
	changed := r.problem != ""
	r.problem = ""
	r.s.mu.Unlock()
	if changed {
		r.s.note()
	}
}

// Failed implements kube.Handler. A path that is gone is looked for again.
func (r *reader) Failed(err error, lasting bool) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if kube.Code(err) == http.StatusNotFound {
		r.stop()
		return
	}
	r.doubted = true
	r.s.set(func() { r.s.status.Errors["read"]++ })
	if lasting {
		r.report(r.explain(err))
	}
}

// report sets the problem of the kind.
func (r *reader) report(problem string) {
	r.s.set(func() { r.problem = problem })
	r.s.note()
}

// explain adds the fix to an error.
func (r *reader) explain(err error) string {
	k := r.subject.resource
	return kube.Explain(err, fmt.Sprintf("not allowed to read %s: add the rule %s to the ClusterRole, or remove the kind from kinds", k, k.rule()),
		fmt.Sprintf("%s cannot be read", k))
}

// proved is called with a time up to which everything was read.
func (r *reader) proved(at time.Time) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if r.subject.resource == leases {
		r.judge(at)
	}
	if !at.Before(r.due) || at.Before(r.due.Add(-2*r.s.cfg.Interval)) { // the clock was set back
		r.due = at.Add(r.s.cfg.Interval)
		r.repeat(at)
	}
	r.progress = at
	r.s.compareMachines()
	r.s.advanceWatermark()
	if r.leftOut > 0 && r.s.room.used <= r.s.cfg.MaxObjects*9/10 && at.Sub(r.listed) >= relistAfter {
		r.stop() // there is room again for what was left out
	}
}

// judge finds the Leases that were not renewed in time. Time in which the API server may
// have been away does not count, since nobody could renew them. The caller holds turn.
func (r *reader) judge(at time.Time) {
	lost := at.Sub(r.progress) - maxGap
	if r.doubted || r.progress.IsZero() {
		lost = at.Sub(time.Time{})
	}
	r.doubted = false
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[key]
		l := o.lease
		if lost > 0 && l.state != leaseStale {
			l.since = times.Earlier(l.since.Add(lost), at)
		}
		if l.overdue(at) {
			stale, lease := *o, *l
			lease.state, stale.lease = leaseStale, &lease
			r.replace(&stale, slices.Collect(facts(o)), at)
		}
	}
}

// repeat writes everything that holds. The caller holds turn.
func (r *reader) repeat(at time.Time) {
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[key]
		now := times.Later(at, o.read)
		var lines []line
		for f := range facts(o) {
			if !f.hidden {
				lines = append(lines, line{f.view, o.namespace, r.subject.line(o, f, f.value, now)})
			}
		}
		r.s.write(lines, now, func() {})
	}
}

// admit reports whether one more object can be remembered. Another may be forgotten for
// it, without a line: what is not read has not ended. The caller holds turn.
func (r *reader) admit(o *object) bool {
	victim, full := r.s.room.victim(o.namespace)
	switch {
	case full:
		r.leave(o)
		return false
	case victim != nil:
		victim.r.leave(victim.r.objects[victim.key])
	}
	return true
}

// leave forgets an object that still exists. The caller holds turn.
func (r *reader) leave(o *object) {
	fresh := false
	r.s.set(func() {
		r.forget(o.key())
		fresh = r.s.room.leave(r, o)
	})
	if fresh {
		r.lose("objects", o)
	}
}

// lose counts what cannot be remembered of an object.
func (r *reader) lose(reason string, o *object) {
	r.s.set(func() { r.s.output.lose(reason, string(r.subject.resource)+" "+o.key()) })
}
