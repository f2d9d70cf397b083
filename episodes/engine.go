// Package episodes decides which failures are open.
//
// An episode is one failure of one rule and key. The engine accepts hits and the watermarks of the sources, and reports
// which episodes opened, continued and ended. Positive conclusions (a count, a sequence) are drawn when a hit arrives.
// Negative ones (no recovery, quiet) wait for the watermark, so that a late line cannot make them false.
//
// The package has no clock, no goroutine, no I/O and no log. Time is a parameter, and the same calls give the same
// episodes.
//
// The comments of the package use these terms:
//
//   - A key is the values of the names in `by` and the identity, which is the values of the labels in Config.Identity.
//   - The window of a key holds its recent lines. A trigger is a line that makes the condition of `match`, or the
//     sequence, true for a key.
//   - A clear line matches `clear` and ends a failure. An unless line matches `unless` and mutes pending episodes, so
//     that they end without firing.
//   - A conclusion is on hold while it waits for a source that makes no progress. A lagging stream was read less far
//     than its source.
//   - A brief failure is a failure whose end was read before it was certain that the failure would fire.
//   - A key of a rule with `silent` is armed while its silence would open an episode.
//   - A tenant, or party, is the namespace, with its cluster, that is charged for an entry of a limit. An episode is
//     displaced if an episode of another tenant takes its place.
package episodes

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/saved"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/episodes/render"
	"crowsnest/internal/blocks"
	"crowsnest/internal/quota"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Bounds and delays of the engine.
const (
	// MaxFuture is the time that a record may be ahead of the clock. A later time is replaced by the time of the clock.
	MaxFuture = 10 * time.Minute
	// keepResolved is the time for which a resolved episode is listed and, after a restart, reported again.
	keepResolved = 15 * time.Minute

	maxClosed = 1000 // number of resolved episodes that are listed
)

// Config bounds an engine. Zero values mean the defaults.
type Config struct {
	// MaxActive, MaxKeys and MaxHits bound the memory of all rules together. The namespaces of the streams share it.
	// Critical rules have an additional quarter that no other rule can use, and infrastructure namespaces have places
	// of their own; see limits.
	MaxActive int // maximum number of open episodes of all rules; default 1000
	MaxKeys   int // maximum number of keys with a window and without an episode; default 10000
	// MaxHits is the maximum number of lines in all windows of keys without an episode. The same maximum applies
	// separately to the windows of open episodes. The default is 100000.
	MaxHits int
	// MaxPerNamespace bounds the open episodes that the streams of one namespace cause,
	// separately for critical and for other rules; default half of MaxActive.
	MaxPerNamespace int
	Fingerprints    int // number of lines that are remembered to recognise repeats; default 32768
	// Identity names labels of streams that belong to every key, at most rules.MaxIdentity.
	// Streams that differ in one of them never share an episode. Nil means
	// rules.DefaultIdentity, and an empty list means no labels.
	Identity []string
	// UpdateEvery is the interval at which Evaluate returns firing episodes that continue unchanged. Their texts are
	// rendered again each time. Zero means at each call.
	UpdateEvery time.Duration
	// Redactor hides the secrets in every key, capture and line before the engine returns them.
	// Nil redacts nothing.
	Redactor *redact.Redactor
	// Cleaner cleans captured values with Redactor and caches the results. Engines that take the same hits in one
	// goroutine can share a Cleaner. Nil means that the engine makes its own.
	Cleaner *Cleaner
	// Unlabelled lets a clear or unless line without a value for a name in `same` apply to the keys that lack the value
	// too. It is for files without stated labels. In a cluster such a line applies to no key.
	Unlabelled bool
}

// Cleaner hides the secrets in captured values, and caches the results. It is not safe for concurrent use.
type Cleaner = intake.Cleaner

// NewCleaner returns a Cleaner for this redactor, which may be nil.
func NewCleaner(r *redact.Redactor) *Cleaner { return intake.NewCleaner(r) }

func (c Config) withDefaults() Config {
	c.MaxActive = cmp.Or(max(c.MaxActive, 0), 1000)
	c.MaxPerNamespace = cmp.Or(max(c.MaxPerNamespace, 0), max(1, c.MaxActive/2))
	c.MaxKeys = cmp.Or(max(c.MaxKeys, 0), 10_000)
	c.MaxHits = cmp.Or(max(c.MaxHits, 0), 100_000)
	c.Fingerprints = cmp.Or(max(c.Fingerprints, 0), 32768)
	if c.Identity == nil {
		c.Identity = rules.DefaultIdentity
	}
	c.Identity = slices.Compact(slices.Sorted(slices.Values(c.Identity)))
	return c
}

// Engine holds the episodes of all rules. It is safe for concurrent use.
//
// The engine locks, passes hits to their rules, and isolates a rule that panics. The types ruleState, episode,
// briefFailure and overflow process the hits and deadlines of a rule. None of them has a reference to the engine.
type Engine struct {
	// rendering is held while texts are rendered. Meanwhile mu is free, so Take does not wait. rendering is always
	// locked before mu.
	rendering sync.Mutex

	mu sync.Mutex
	common
	rules       map[string]*ruleState
	order       []*ruleState // states of the rules, in the order of the rule set
	sources     watermark.Sources
	safeDue     watermark.Compute     // calls computeDeadline, which quarantines a rule that panics
	due         []*watermark.Deadline // buffer that conclude reuses
	recent      *ruleState            // state of the rule of the last hit; nil if there was no hit since Swap
	seen        *quota.FingerprintSet
	blocks      blocks.Encoder[saved.ClosedKey, saved.ClosedTexts]
	deletedPods podTimes // deleted pods whose episodes have not ended yet
	lagging     bool     // whether a source has lagging streams, or had some at the last Evaluate
	warm        bool     // whether a warm-up is in progress; see StartWarmUp
	warmed      time.Time
	ahead       int64 // newest corrected time of a line that was too far ahead of the clock
	// aheadCleared is set if the line whose corrected time is ahead was a clear line.
	aheadCleared bool

	total    Totals
	lastLate uint64 // ID of the line that was last counted as late
}

// common is the state that the rules of an engine share.
type common struct {
	cfg      Config
	in       intake.Intake // the hit that is being processed
	journal  journal
	limits   limits
	renderer render.Renderer
	// departed are deleted pods. Their lines from before the deletion do not arm a key.
	departed podTimes
	// unsettled is set if an episode of a rule that is a cause or a symptom changed.
	unsettled bool
	// trusted are the namespaces that rules with `origin: infrastructure` trust. Nil means all.
	trusted *rules.Namespaces
}

// New makes an engine without rules and sources.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{
		rules: map[string]*ruleState{}, deletedPods: newPodTimes(),
		common: common{cfg: cfg, departed: newPodTimes()},
	}
	e.limits, e.seen = newLimits(cfg, e.isInfrastructure), quota.NewFingerprintSet(cfg.Fingerprints, e.isInfrastructure)
	e.journal = newJournal(e.isInfrastructure)
	e.renderer.Redactor = cfg.Redactor
	if cfg.Cleaner == nil {
		cfg.Cleaner = NewCleaner(cfg.Redactor)
	}
	e.in, e.safeDue = intake.New(cfg.Identity, cfg.Cleaner, &e.renderer), e.computeDeadline
	return e
}

// Suspend reports that lines are no longer matched against the rule. Its open episodes stay open, and nothing is
// concluded from silence, until Swap installs another version of the rule. Suspend does nothing if the rule is unknown
// or already suspended.
func (e *Engine) Suspend(r *rules.Rule, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rs := e.rules[r.Alert]; rs != nil && rs.rule == r && rs.suspended == window.NoTime {
		e.freezeRule(rs, instant.FromTime(now))
		rs.armDeadlines()
	}
}

// Evaluate draws every conclusion that the watermarks allow and returns the
// transitions and updates since the last call, in order. The slice belongs to
// the caller.
func (e *Engine) Evaluate(now time.Time) []Episode {
	at := instant.FromTime(now)
	return e.renderAll(e.drawConclusions(at), at)
}

func (e *Engine) drawConclusions(t int64) []*transition {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limits.losses.Now = t
	e.conclude(t)
	e.endDeletedPods(t)
	e.noteOnHold(t)
	e.relateSymptoms(t)
	e.journal.dropOld(t)
	if e.warm {
		for _, ep := range e.journal.dirty {
			ep.dirty = false // lets EndWarmUp mark the episode again
		}
		e.journal.dirty = e.journal.dirty[:0]
		return slices.DeleteFunc(e.journal.takeChanges(), e.readBack)
	}
	if d := t - e.journal.updated; d < 0 || d >= int64(e.cfg.UpdateEvery) {
		e.journal.updated = t
		e.addContinued(t)
	}
	return e.journal.takeChanges()
}

// addContinued adds firing episodes that continued since the last update to the list of changes.
func (e *Engine) addContinued(now int64) {
	j := &e.journal
	for _, ep := range j.dirty {
		if ep.dirty && ep.state == StateFiring {
			j.changes = append(j.changes, e.safeTransition(ep, now))
		}
		ep.dirty = false
	}
	j.dirty = j.dirty[:0]
	for _, o := range j.flooded {
		if o.active && o.dirty && e.rules[o.rs.rule.Alert] == o.rs && !o.rs.quarantined {
			j.changes = append(j.changes, o.transition(now))
		}
		o.dirty = false
	}
	j.flooded = j.flooded[:0]
}

// Episodes returns the open episodes and those resolved in the last 15 minutes, sorted by rule and start. OnHold
// describes the state at now.
func (e *Engine) Episodes(now time.Time) []Episode {
	at := instant.FromTime(now)
	return e.renderAll(e.listTransitions(at), at)
}

func (e *Engine) listTransitions(t int64) (out []*transition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, rs := range e.order {
		for _, ep := range rs.sortedEpisodes() {
			out = append(out, e.safeTransition(ep, t))
		}
		if rs.overflow.active {
			out = append(out, rs.overflow.transition(t))
		}
	}
	return append(out, e.journal.closed...)
}

// StartWarmUp starts rebuilding state from lines that were written before now. An earlier process may already have
// reported the episodes that these lines open. Therefore such an episode is reported only after EndWarmUp, and only if
// it is still firing. Episodes that later lines open are reported at once.
func (e *Engine) StartWarmUp(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.warm, e.warmed = true, now
}

// EndWarmUp ends the warm-up. The next Evaluate returns every firing episode.
func (e *Engine) EndWarmUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.warm {
		return
	}
	e.warm = false
	e.journal.closed, e.journal.ended, e.journal.nothingToDropUntil = slices.DeleteFunc(e.journal.closed, e.readBack), nil, 0
	e.journal.touchAll(e.order)
}

// readBack reports whether a line that was written before the warm-up made the episode of t fire.
func (e *Engine) readBack(t *transition) bool { return t.EventTime.Before(e.warmed) }

// runGuarded calls f for one rule and reports whether f returned. If f panics, the rule is quarantined. Then its hits
// are ignored, its episodes stay open, and nothing is concluded from its silence until Swap installs another version.
// Other rules are not affected.
func (e *Engine) runGuarded(rs *ruleState, now int64, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.quarantineRule(rs, now)
		}
	}()
	f()
	return true
}

func (e *Engine) quarantineRule(rs *ruleState, now int64) {
	rs.quarantined = true
	rs.disarmDeadlines() // the deadlines share a heap with other rules, and computing one may have caused the panic
	e.freezeRule(rs, now)
}

// Quarantined returns the rules that panicked in the engine and are no longer evaluated, in the
// order of the rule set.
func (e *Engine) Quarantined() []*rules.Rule {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*rules.Rule
	for _, rs := range e.order {
		if rs.quarantined {
			out = append(out, rs.rule)
		}
	}
	return out
}
