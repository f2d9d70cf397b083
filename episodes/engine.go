package episodes

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/redact"
	"crowsnest/rules"
)

// Bounds and delays of the engine.
const (
	// MaxFuture is how far ahead of the clock a record may be; beyond, it
	// counts as "now".
	MaxFuture = 10 * time.Minute
	// KeepResolved is how long a resolved episode is listed and, after a restart,
	// reported again.
	KeepResolved = 15 * time.Minute
	// OnHoldAfter is how far the progress of a source may lag behind the clock before
	// its rules are on hold.
	OnHoldAfter = 30 * time.Second

	maxValue  = 256     // bytes of a label value
	maxSample = 1 << 10 // bytes of a line that is kept
	maxClosed = 1000    // resolved episodes that are listed
	// clearKeysPerKey is how many keys of clear and unless lines are remembered per
	// key of MaxKeys: they are small.
	clearKeysPerKey = 2
	// noTime is before every event: nothing was read, cleared or muted.
	noTime = math.MinInt64 / 2
)

// Config bounds an engine. Zero values mean the defaults.
type Config struct {
	// MaxActive, MaxKeys and MaxHits bound what all rules together remember; it is
	// shared among the namespaces of the streams, and critical rules have a
	// quarter more that no other rule can use.
	MaxActive int // open episodes of all rules; default 1000
	MaxKeys   int // keys with a window and without an episode; default 10000
	// MaxHits bounds the lines in the windows of those keys, and as many in those
	// of open episodes; default 100000.
	MaxHits int
	// MaxPerNamespace bounds the open episodes that the streams of one namespace
	// cause, of critical and of other rules each; default half of MaxActive.
	MaxPerNamespace int
	Fingerprints    int // lines that are remembered to find repeats; default 32768
	// Identity names labels of streams that belong to every key, at most
	// rules.MaxIdentity: lines of streams that differ in one of them have nothing
	// to do with each other. Nil means rules.DefaultIdentity, empty none.
	Identity []string
	// UpdateEvery is how often Evaluate returns episodes that merely went on: their
	// texts are rendered again each time. 0: each Evaluate does.
	UpdateEvery time.Duration
	// Redactor hides the secrets of every key, capture and line before it
	// leaves the engine; nil does not redact.
	Redactor *redact.Redactor
	// Unlabelled lets a clear or unless line that lacks a value of `same`
	// apply to the keys that lack it too. It is for files without stated labels;
	// in a cluster such a line applies to nothing.
	Unlabelled bool
}

func (c Config) withDefaults() Config {
	if c.MaxActive <= 0 {
		c.MaxActive = 1000
	}
	if c.MaxPerNamespace <= 0 {
		c.MaxPerNamespace = max(1, c.MaxActive/2)
	}
	if c.MaxKeys <= 0 {
		c.MaxKeys = 10000
	}
	if c.MaxHits <= 0 {
		c.MaxHits = 100_000
	}
	if c.Fingerprints <= 0 {
		c.Fingerprints = 32768
	}
	if c.Identity == nil {
		c.Identity = rules.DefaultIdentity
	}
	c.Identity = slices.Compact(slices.Sorted(slices.Values(c.Identity)))
	return c
}

// Engine holds the episodes of all rules. It is safe for concurrent use.
type Engine struct {
	cfg Config

	mu          sync.Mutex
	rules       map[string]*ruleState
	order       []*ruleState // as in the set
	sources     []*source
	groups      []*group
	due         []*deadline // memory of Evaluate
	batch       batch       // memory of Take
	recent      *ruleState  // that of the last hit; nil: there was none since Swap
	seen        *fingerprints
	origins     origins
	cleaned     *simplelru.LRU[cleanKey, string]
	deletedPods *simplelru.LRU[podName, int64] // when pods were deleted, in that order
	// Memory that log lines fill is shared among namespaces: open episodes, the windows
	// of keys without one, and the times of clear and unless lines.
	slots, windows, clearLines *room
	evictions                  evictions
	churn                      churn

	spans   *simplelru.LRU[Fingerprint, []span] // for which alerts were notified
	changes []Episode                           // not returned by Evaluate yet
	dirty   []*episode                          // firing, went on since the last update
	flooded []*ruleState                        // the same of their overflows
	updated int64                               // when that was
	closed  []Episode                           // resolved in the last KeepResolved, oldest first
	pack    Pack[closedKey, closedTexts]
	ended   []*pastEpisode // ended in that time, fired or not, with their history
	warm    bool           // warming up, since warmed
	warmed  time.Time
	step    step // of the clock

	total    Totals
	lastLate uint64 // ID of the line that was counted last
}

// New makes an engine without rules and sources.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{cfg: cfg, rules: map[string]*ruleState{}, deletedPods: newDeletedPods()}
	e.churn = newChurn(cfg)
	e.slots = newRoom(load{inEntries: cfg.MaxActive, inLines: cfg.MaxHits})
	e.windows = newRoom(load{inEntries: cfg.MaxKeys, inLines: cfg.MaxHits})
	e.clearLines = newRoom(load{inEntries: clearKeysPerKey * cfg.MaxKeys, inLines: cfg.MaxHits})
	// The sizes are positive, so there is no error.
	e.cleaned, _ = simplelru.NewLRU[cleanKey, string](maxClean, nil)
	e.spans, _ = simplelru.NewLRU[Fingerprint, []span](maxNotified, nil)
	e.seen, e.origins = newFingerprints(cfg.Fingerprints), newOrigins()
	return e
}

// touchOverflow marks the overflow of a rule for the next update.
func (e *Engine) touchOverflow(rs *ruleState) {
	if !rs.over.dirty {
		rs.over.dirty = true
		e.flooded = append(e.flooded, rs)
	}
}

// Suspend reports that lines are no longer matched against the rule. Its open episodes
// stay open, and nothing is concluded from silence, until Swap installs another version
// of the rule. Suspend does nothing if the rule is unknown or already suspended.
func (e *Engine) Suspend(r *rules.Rule, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rs := e.rules[r.Alert]; rs != nil && rs.rule == r && rs.suspended == noTime {
		rs.suspended = nanos(now)
		e.isolate(rs)
		rs.arm()
	}
}

// Evaluate draws every conclusion that the watermarks allow and returns the
// transitions and updates since the last call, in order. The slice belongs to
// the caller.
func (e *Engine) Evaluate(now time.Time) []Episode {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	e.evictions.now = at
	e.conclude(at)
	e.endDeletedPods(at)
	e.noteOnHold(at)
	e.forget(at)
	e.forgetEnded(at)
	if e.warm {
		for _, ep := range e.dirty {
			ep.dirty = false // so that EndWarmUp can mark it again
		}
		e.dirty = e.dirty[:0]
		out := slices.DeleteFunc(e.changes, e.readBack)
		e.changes = nil
		return out
	}
	if d := at - e.updated; d < 0 || d >= int64(e.cfg.UpdateEvery) {
		e.updated = at
		e.update(at)
	}
	out := e.changes
	e.changes = nil
	return out
}

// update adds the firing episodes that continued to the changes.
func (e *Engine) update(now int64) {
	for _, ep := range e.dirty {
		if ep.dirty && ep.state == StateFiring {
			e.changes = append(e.changes, e.exportSafely(ep, now))
		}
		ep.dirty = false
	}
	e.dirty = e.dirty[:0]
	for _, rs := range e.flooded {
		if rs.over.active && rs.over.dirty && e.rules[rs.rule.Alert] == rs && !rs.quarantined {
			e.guard(rs, now, func() { e.changes = append(e.changes, e.exportOverflow(rs, now)) })
		}
		rs.over.dirty = false
	}
	e.flooded = e.flooded[:0]
}

// forget drops the episodes that were resolved more than KeepResolved ago.
func (e *Engine) forget(now int64) {
	e.closed = keepShared(e.closed, maxClosed)
	n := 0
	for n < len(e.closed) && nanos(e.closed[n].EndsAt) < now-int64(KeepResolved) && nanos(e.closed[n].Concluded) < now-int64(KeepResolved) {
		n++
	}
	clear(e.closed[:n]) // the next growth frees the memory
	e.closed = e.closed[n:]
}

// Episodes returns what is open and what was resolved in the last 15 minutes,
// in order of rules and start. OnHold is as of now.
func (e *Engine) Episodes(now time.Time) []Episode {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := nanos(now)
	var out []Episode
	for _, rs := range e.order {
		for _, ep := range rs.sorted() {
			out = append(out, e.exportSafely(ep, at))
		}
	}
	return append(out, e.closed...)
}

// NextDeadline returns the earliest clock time at which Evaluate may conclude something
// without another line, if all sources keep up.
func (e *Engine) NextDeadline() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.nextDeadline()
	if next == math.MaxInt64 {
		return time.Time{}, false
	}
	return instant(next), true
}

// StartWarmUp starts rebuilding state from lines that were written before now. The
// episodes that they open may have been reported already: those still open are reported
// after EndWarmUp. Episodes that later lines open are reported at once.
func (e *Engine) StartWarmUp(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.warm, e.warmed = true, now
}

// EndWarmUp ends the warm-up: the next Evaluate returns what is firing.
func (e *Engine) EndWarmUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.warm {
		return
	}
	e.warm = false
	e.closed, e.ended = slices.DeleteFunc(e.closed, e.readBack), nil
	e.touchAll()
}

// readBack reports whether x was opened by a line from before the warm-up.
func (e *Engine) readBack(x Episode) bool { return x.Written.Before(e.warmed) }

// touchAll marks every firing episode for the next update.
func (e *Engine) touchAll() {
	for _, rs := range e.order {
		for _, ep := range rs.sorted() {
			e.touch(ep)
		}
		if rs.over.active {
			e.touchOverflow(rs)
		}
	}
}

// touch marks an episode that continued for the next update.
func (e *Engine) touch(ep *episode) {
	if !ep.dirty {
		ep.dirty = true
		e.dirty = append(e.dirty, ep)
	}
}

// end2200 is the end of the year 2200 in seconds since 1970.
const end2200 = 7289654400

// nanos turns a time into nanoseconds since 1970, clamped to what fits.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s >= end2200:
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}

// instant is the inverse of nanos.
func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// mix hashes two words into one.
func mix(a, b uint64) uint64 {
	x := a ^ b*0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	x ^= x >> 32
	return x
}
