package loki

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/sources"
)

const (
	// maxBehind is the largest age of entries that are read after an outage. Older entries are
	// counted as lost, because the person on call needs the present.
	maxBehind = 24 * time.Hour
	// watermarkEvery is the interval at which a fast round starts early enough in time to
	// advance the watermark (see the package comment).
	watermarkEvery = 5 * time.Second
	// maxRest is the longest interval between two such rounds, which is used if they take
	// long.
	maxRest = 20 * time.Second
	// downAfter is the time after which failing requests mean that the source is down. A
	// connection that breaks now and then is normal.
	downAfter = 3 * time.Second
	// markEvery is the interval at which the state is saved even if nothing matches. After a
	// quiet day, a restart then does not read the whole day again.
	markEvery = 10 * time.Second
	// staleAfter is the age of the watermark from which on the source counts as down. It is
	// shorter than the time after which a source is reported as stuck.
	staleAfter = 45 * time.Second
	maxStreams = 5000
	maxListed  = 500 // largest number of streams in Status
)

// Source reads the streams of one tenant of a Loki.
type Source struct {
	cfg     Config
	name    string
	tenant  string
	planner planner
	options matcher.StreamOptions
	set     atomic.Pointer[rules.Set] // the active rules
	// accept is called for each new entry. ReadRange replaces it.
	accept func(st *stream, e *entry, key uint64)

	// The following fields are used only by Run.
	pipe     sources.Pipeline
	asker    *asker
	used     *rules.Set // set of rules for which plan was made
	plan     plan
	unfilter bool // whether the server refuses filters
	maxQuery int
	fast     *round // fast round in progress; nil if there is none
	slow     *round
	reading  *round // round to which the current request belongs
	fastDue  time.Time
	slowDue  time.Time
	slowWait time.Time     // time at which slow rounds may continue after a failure
	owed     bool          // whether the next request belongs to the slow round
	deepNext bool          // whether the next round reaches back as far as a slow round
	rest     time.Duration // time left until the range of a fast round must be long enough to advance the watermark
	rounds   int
	pace     pace
	failing  time.Time // time since which requests fail; zero if they succeed
	marked   time.Time
	probed   time.Time // time of the last query whether the selected streams exist; zero if there was none
	exist    bool      // whether the selected streams exist
	hash     xxhash.Digest
	byIndex  []*stream // streams of the current response, by index
	metaKey  []byte

	// mu guards the following fields. Only Run changes them, except status.
	mu        sync.Mutex
	memory    *memory
	streams   *simplelru.LRU[string, *stream]
	first     int64 // floor of the memory at the start
	covered   int64 // time before which all entries were read; zero before the first round
	watermark int64 // start of the last round that advanced the watermark
	deep      int64 // start of the last round that reached back as far as a slow round
	latest    int   // number of the newest round that set covered
	active    bool  // whether a fast round is in progress or has failed
	warning   string
	status    sources.Status
}

// stream is one stream with the labels that rules see.
type stream struct {
	s           *matcher.Stream
	selfWritten bool // whether this program wrote the stream
	rules       int
	lines       int64
	read        time.Time
}

// New returns the sources of a configuration, one for each tenant. It does no I/O.
func New(cfg Config) []*Source {
	cfg = cfg.withDefaults()
	if len(cfg.Tenants) == 0 {
		return []*Source{newSource(cfg, cfg.Name, "")}
	}
	var out []*Source
	for _, t := range cfg.Tenants {
		out = append(out, newSource(cfg, sourceName(cfg, t), t))
	}
	return out
}

// sourceName returns the name of the source for one tenant. If there are several tenants, the
// name ends with the tenant.
func sourceName(cfg Config, tenant string) string {
	name := cfg.withDefaults().Name
	if len(cfg.Tenants) > 1 {
		name += "-" + tenant
	}
	return name
}

func newSource(cfg Config, name, tenant string) *Source {
	sel, _ := selector.Parse(cfg.Selector) // Validate reports the error
	s := &Source{
		cfg: cfg, name: name, tenant: tenant, options: cfg.streamOptions(), maxQuery: maxQuery,
		planner: planner{selector: sel, naming: newNaming(cfg, tenant)},
		asker:   newAsker(cfg, tenant),
		memory:  newMemory(0, maxKeys/max(1, len(cfg.Tenants))),
		status:  sources.Status{Name: name, Errors: map[string]int64{}, Losses: map[string]sources.Loss{}},
	}
	for _, reason := range append(failureReasons(), late10s, late1m, late5m, errEntry, errMemory, errClock, errWarning) {
		s.status.Errors[reason] = 0
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive, so there is no error
	s.asker.use, s.asker.lose, s.asker.failed, s.accept = s.passEntries, s.countLost, s.countFailure, s.passEntry
	return s
}

// Name returns "loki" unless the configuration sets another name. If there are several tenants,
// the name ends with the tenant.
func (s *Source) Name() string { return s.name }

// Serves returns a function like Source.Serves for a configuration. cfg must be valid.
func Serves(cfg Config) func(rules.Selector) bool {
	cfg = cfg.withDefaults()
	sel, _ := selector.Parse(cfg.Selector) // Validate reports the error
	return planner{selector: sel, naming: newNaming(cfg, "")}.serves
}

// Serves reports whether the selector can match a stream of this source. The source knows the
// value of the label tenant, and of the labels that the configured selector requires with "=".
func (s *Source) Serves(from rules.Selector) bool { return s.planner.serves(from) }

// Info implements sources.Source. If new rules need other lines than before, the next round
// reaches back as far as a slow round. A new rule therefore misses no lines that arrive late.
func (s *Source) Info() sources.Info {
	return sources.Info{Remote: true, Lateness: s.cfg.Lateness, UseRules: s.set.Store}
}

// Run reads until ctx ends, and returns nil. It starts no goroutine that outlives a
// request.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.asker.client.http.Close()
	s.applyLookBack(s.cfg.Clock().UnixNano())
	for {
		wait := s.runTurn(ctx)
		if !pause.Sleep(ctx, wait, nil) {
			s.mu.Lock()
			s.status.Up = false
			s.mu.Unlock()
			return nil
		}
	}
}

// applyLookBack sets the start of reading to the look-back if no position was restored.
func (s *Source) applyLookBack(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered == 0 {
		s.covered = now - int64(s.cfg.LookBack)
		s.watermark, s.deep = s.covered, s.covered
		s.memory.raiseFloor(s.covered)
	}
	s.first = s.memory.floor
}

// runTurn makes at most one request. It returns the time to wait before the next turn.
func (s *Source) runTurn(ctx context.Context) time.Duration {
	s.updatePlan()
	r, wait := s.nextRound()
	if r == nil {
		return wait
	}
	if c := r.lowestCursor(); c != nil {
		s.reading = r
		if floor := s.memory.floor; c.at < floor { // the memory was full and has raised its floor
			*c = cursor{logql: c.logql, at: floor, end: c.end}
		}
		f := s.asker.step(ctx, c)
		if ctx.Err() != nil {
			return 0
		}
		s.recordProgress(r)
		s.triggerSave()
		if f != nil {
			return s.recordFailure(r, f)
		}
	}
	if r.lowestCursor() == nil {
		s.finishRound(r)
		if f := s.probeEntry(ctx); f != nil {
			return s.recordFailure(r, f)
		}
	}
	s.recordSuccess()
	return 0
}

func (s *Source) updatePlan() {
	set := s.set.Load()
	if set == nil {
		set = s.pipe.Rules()
	}
	if set == s.used || set == nil {
		return
	}
	if s.used != nil {
		s.unfilter = false
	}
	s.makePlan(set)
}

// makePlan makes the plan for a set of rules. It restarts the rounds, because their queries
// may lack lines that the new rules need.
func (s *Source) makePlan(set *rules.Set) {
	old, had := s.plan, s.used != nil
	s.used, s.plan = set, s.planner.makePlan(set, s.maxQuery-uncachedRoom, !s.unfilter)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.Purge()
	s.warning = s.plan.warning(s.unfilter)
	if had && !equalPlans(old, s.plan) {
		s.fast, s.slow, s.deepNext = nil, nil, true
		s.fastDue = time.Time{}
	}
}

// recordFailure records a failure and returns the time to wait.
func (s *Source) recordFailure(r *round, f *failure) time.Duration {
	now := time.Now()
	if s.failing.IsZero() {
		s.failing = now
	}
	again := s.reduceQuery(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		return 0
	}
	s.active = true
	if needsOperator(f.reason) || now.Sub(s.failing) >= downAfter {
		s.status.Up, s.status.Error = false, f.err.Error()
	}
	wait := s.pace.delayAfter(f)
	if !r.fast {
		s.slowWait = now.Add(wait) // fast rounds do not wait for slow ones
		return 0
	}
	return wait
}

// reduceQuery reduces the query if the server refuses it. It reports whether to retry
// immediately.
func (s *Source) reduceQuery(f *failure) bool {
	switch {
	case s.unfilter:
		return false
	case f.reason == reasonQuery && s.maxQuery > minQuery:
		most := s.maxQuery / 2
		if f.allowed > 0 && f.allowed < s.maxQuery {
			most = f.allowed - 1
		}
		s.maxQuery = max(most, minQuery)
	case f.reason == reasonQuery || f.reason == reasonSyntax:
		s.unfilter = true
	default:
		return false
	}
	s.makePlan(s.used)
	return true
}

func (s *Source) recordSuccess() {
	s.pace.fails, s.failing = 0, time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Up, s.status.Opened, s.status.Error = true, true, s.warning
}

func (s *Source) countFailure(f *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Errors[f.reason]++
}

// countLost counts entries that cannot be read. It counts them only once, although each round
// that reaches back far enough finds them again.
func (s *Source) countLost(reason, logql string, t int64) {
	selector, _ := cutSelector(logql) // the rest of the query differs each time, so it must not be part of the key
	s.hash.Reset()
	_, _ = s.hash.WriteString(reason + selector)
	key := s.hash.Sum64() ^ uint64(t)
	now := s.cfg.Clock().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.memory.has(t, key) {
		s.memory.add(t, key)
		s.recordMissed(reason, lossPlace(logql, t), now)
	}
}

func (s *Source) recordMissed(reason, where string, now time.Time) {
	l := s.status.Losses[reason]
	s.status.Losses[reason] = sources.Loss{Count: l.Count + 1, At: now, Path: where}
}
