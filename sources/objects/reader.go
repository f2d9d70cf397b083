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

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/internal/times"
)

const (
	lookEvery = time.Minute // interval of the look-ups of a kind that the API server lacks
	// removedAfter is the time after which the objects of a missing kind count as removed. The
	// time is needed because an API server that is starting lacks some kinds.
	removedAfter = 3 * time.Minute
	// maxGap is the longest time between two responses of the API server that counts in full towards the staleness of a
	// Lease. During a longer time, holders may not have reached the API server either, so only maxGap counts. Responses
	// are normally about seven seconds apart.
	maxGap = 10 * time.Second
	// relistAfter is the shortest time between two lists of a kind while some of its objects are not remembered for
	// lack of room.
	relistAfter = 10 * time.Minute
)

// reader reads the objects of one kind. It is a kube.Handler.
type reader struct {
	s       *Source
	subject subject // guarded by mu, and changed only by run

	// The following fields are guarded by turn.
	round    int  // number of lists so far
	doubted  bool // whether an error has occurred since progress last advanced
	due      time.Time
	progress time.Time // time up to which all changes were read; zero if unknown
	listed   time.Time // time at which the last list was complete
	stop     func()    // cancels the watch, so that the reader lists all objects again

	// The following fields are guarded by mu, and changed only by the holder of turn.
	objects  map[string]*object
	restored map[string]*object // objects of the saved state that have not been listed since
	stored   json.RawMessage    // encoded positions of this kind; nil if the facts have changed
	synced   bool
	absent   bool // whether the API server does not have the kind
	leftOut  int  // number of objects that are not remembered for lack of room
	problem  string

	missing time.Time // time since which the kind has been absent
	failed  int       // number of consecutive failed look-ups of the kind
}

func (r *reader) run(ctx context.Context) {
	for ctx.Err() == nil {
		at := r.s.cfg.Clock()
		found, err := FindResource(ctx, r.s.client, string(r.subject.resource))
		if found.Kind != "" && found.Kind != r.subject.kind {
			r.s.withLock(func() { r.subject.kind, r.stored = found.Kind, nil })
		}
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.failed++
			wait = pause.Backoff(time.Second, kube.SlowRetry, r.failed)
			r.Failed(err, r.failed > 1)
		case found.Path == "":
			r.failed = 0
			wait = pause.Jitter(r.recordAbsence(at))
		default:
			r.failed, r.missing = 0, time.Time{}
			r.followPath(ctx, found.Path)
			wait = time.Second
		}
		pause.Sleep(ctx, wait, nil)
	}
}

// recordAbsence records that the kind was absent at t. It returns the time until the next
// look-up. After removedAfter, the known objects count as gone.
func (r *reader) recordAbsence(t time.Time) time.Duration {
	r.s.turn.Lock()
	if r.missing.IsZero() {
		r.missing = t
	}
	if t.Sub(r.missing) < removedAfter && len(r.objects)+len(r.restored) > 0 {
		r.s.turn.Unlock()
		r.setProblem(fmt.Sprintf("the API server no longer has %s; if that lasts for %v, its objects count as removed", r.subject.resource, removedAfter))
		return min(max(time.Second, t.Sub(r.missing)), kube.SlowRetry)
	}
	r.round++
	r.removeUnlisted()
	r.progress = t
	r.s.withLock(func() { r.absent, r.synced, r.problem = true, false, "" })
	r.s.advanceWatermark()
	r.s.turn.Unlock()
	r.s.updateStatus()
	return lookEvery
}

// followPath lists and watches the objects at path. It returns when ctx ends or the API server no longer has the path.
func (r *reader) followPath(ctx context.Context, path string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.s.turn.Lock()
	r.progress, r.stop = time.Time{}, cancel // no object was read at this path yet
	r.s.withLock(func() { r.absent = false })
	r.s.turn.Unlock()
	w := &kube.Watcher{Client: r.s.client, Path: path, Query: r.subject.resource.query(), Clock: r.s.cfg.Clock, Handler: r, Progress: r.provedUpTo}
	w.Run(ctx)
}

func (r *reader) Listing() { r.round++ }

func (r *reader) Changed(in json.RawMessage) error {
	o, cut, err := projectObject(r.subject.resource, in)
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
		r.countForgotten("parts", o)
	}
	last := r.objects[o.key()]
	if last != nil && last.uid != o.uid {
		r.removeObject(last, at)
		last = nil
	}
	if last == nil {
		// If there is no room for the object, another one may have to be forgotten. No line is
		// written about the other object, because it still exists.
		victim, full := r.s.room.chooseVictim(o.namespace)
		if full {
			r.evictObject(o)
			return nil
		}
		if victim.r != nil {
			victim.r.evictObject(victim.r.objects[victim.key])
		}
		last = r.restored[o.key()]
	}
	o.followLast(last, at)
	r.replaceObject(o, listFacts(last), at)
	return nil
}

// replaceObject replaces the remembered state of an object and writes lines about its changes.
// before are the facts that were known before. The caller holds turn.
func (r *reader) replaceObject(o *object, before []fact, t time.Time) {
	found := diffFacts(before, o)
	var lines []line
	for _, c := range found {
		text := ""
		if c.gone {
			text = r.subject.goneLine(o, c.fact)
		} else {
			text = r.subject.factLine(o, c.fact, c.former, t)
		}
		lines = append(lines, line{c.view, o.namespace, text})
	}
	r.s.writeLines(lines, t, func() {
		last := r.objects[o.key()]
		if last == nil || len(found) > 0 {
			r.stored = nil
		}
		if last == nil {
			r.s.room.addPlace(r, o)
			r.s.room.noteBack(place{r, o.key()})
		}
		r.objects[o.key()] = o
		delete(r.restored, o.key())
	})
}

// removeObject forgets an object and writes for each of its facts a line that the fact no longer holds. The caller
// holds turn.
func (r *reader) removeObject(o *object, t time.Time) {
	var lines []line
	for _, f := range listFacts(o) {
		lines = append(lines, line{f.view, o.namespace, r.subject.goneLine(o, f)})
	}
	r.s.writeLines(lines, t, func() {
		r.forgetObject(o.key())
	})
}

// forgetObject forgets an object. The caller holds turn and mu.
func (r *reader) forgetObject(key string) {
	if o := r.objects[key]; o != nil {
		delete(r.objects, key)
		r.s.room.removePlace(r, o)
	}
	delete(r.restored, key)
	r.stored = nil
}

// removeUnlisted removes the objects that the last list did not contain. The caller holds turn.
func (r *reader) removeUnlisted() {
	at := r.s.cfg.Clock()
	r.s.withLock(func() { r.s.room.forgetUnlisted(r) })
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		if o := r.objects[key]; o.round != r.round {
			r.removeObject(o, at)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.restored)) {
		r.removeObject(r.restored[key], at)
	}
}

func (r *reader) Deleted(_ context.Context, in json.RawMessage) error {
	o, _, err := projectObject(r.subject.resource, in)
	if err != nil {
		return err
	}
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if last := r.objects[o.key()]; last != nil {
		r.removeObject(last, r.s.cfg.Clock())
	}
	r.s.withLock(func() { r.s.room.noteBack(place{r, o.key()}) })
	return nil
}

func (r *reader) Listed(context.Context) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	r.removeUnlisted()
	r.listed = r.s.cfg.Clock()
	if r.due.IsZero() {
		r.due = r.s.cfg.Clock().Add(r.s.cfg.Interval)
	}
	r.s.withLock(func() { r.synced = true })
	r.s.updateStatus()
}

func (r *reader) Passed() {
	r.s.mu.Lock()
	changed := r.problem != ""
	r.problem = ""
	r.s.mu.Unlock()
	if changed {
		r.s.updateStatus()
	}
}

// Failed makes the reader look for the kind again if the path is gone.
func (r *reader) Failed(err error, lasting bool) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if kube.StatusCode(err) == http.StatusNotFound {
		r.stop()
		return
	}
	r.doubted = true
	r.s.withLock(func() { r.s.status.Errors["read"]++ })
	if k := r.subject.resource; lasting {
		r.setProblem(kube.ExplainError(err, fmt.Sprintf(
			"not allowed to read %s: add the rule {apiGroups: [%s], resources: [%s], verbs: [list, watch]} to the ClusterRole, or remove the kind from kinds",
			k, cmp.Or(k.group(), `""`), k.resource()), fmt.Sprintf("%s cannot be read", k)))
	}
}

func (r *reader) setProblem(problem string) {
	r.s.withLock(func() { r.problem = problem })
	r.s.updateStatus()
}

// provedUpTo records that all changes up to t were read.
func (r *reader) provedUpTo(t time.Time) {
	r.s.turn.Lock()
	defer r.s.turn.Unlock()
	if r.subject.resource == leases {
		r.findStaleLeases(t)
	}
	// The second condition means that the clock was set back.
	if !t.Before(r.due) || t.Before(r.due.Add(-2*r.s.cfg.Interval)) {
		r.due = t.Add(r.s.cfg.Interval)
		r.writeAll(t)
	}
	r.progress = t
	r.s.compareMachines()
	r.s.advanceWatermark()
	if r.leftOut > 0 && r.s.room.used <= r.s.cfg.MaxObjects*9/10 && t.Sub(r.listed) >= relistAfter {
		r.stop() // list again, because there is room for further objects
	}
}

// findStaleLeases finds the Leases that were not renewed in time. Time in which the API server may
// have been unreachable does not count. The caller holds turn.
func (r *reader) findStaleLeases(t time.Time) {
	lost := t.Sub(r.progress) - maxGap
	if r.doubted || r.progress.IsZero() {
		lost = t.Sub(time.Time{})
	}
	r.doubted = false
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[key]
		l := o.lease
		if lost > 0 && l.state != leaseStale {
			l.since = times.Min(l.since.Add(lost), t)
		}
		if (l.state == leaseUnknown || l.state == leaseHeld) && l.valid > 0 && t.Sub(l.since) >= l.valid {
			stale, lease := *o, *l
			lease.state, stale.lease = leaseStale, &lease
			r.replaceObject(&stale, listFacts(o), t)
		}
	}
}

// writeAll writes the lines of all current facts. The caller must hold the lock r.turn.
func (r *reader) writeAll(t time.Time) {
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[key]
		now := times.Max(t, o.read)
		var lines []line
		for _, f := range listFacts(o) {
			if !f.hidden {
				lines = append(lines, line{f.view, o.namespace, r.subject.factLine(o, f, f.value, now)})
			}
		}
		r.s.writeLines(lines, now, func() {})
	}
}

// evictObject forgets an object although it still exists. The caller holds turn.
func (r *reader) evictObject(o *object) {
	fresh := false
	r.s.withLock(func() {
		r.forgetObject(o.key())
		fresh = r.s.room.noteLeftOut(r, o)
	})
	if fresh {
		r.countForgotten("objects", o)
	}
}

func (r *reader) countForgotten(reason string, o *object) {
	r.s.withLock(func() { r.s.output.countLost(reason, string(r.subject.resource)+" "+o.key()) })
}
