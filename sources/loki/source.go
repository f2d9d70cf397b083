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
	// maxBehind is the maximum age of entries that are read after an outage. Older
	// ones are counted as lost: the person on call needs the present.
	maxBehind = 24 * time.Hour
	// watermarkEvery is how often a fast round reaches back far enough to advance the watermark.
	watermarkEvery = 5 * time.Second
	// maxRest bounds that interval where such rounds take long.
	maxRest = 20 * time.Second
	// downAfter is how long requests must fail until the source counts as down. A
	// connection that breaks now and then is normal.
	downAfter = 3 * time.Second
	// markEvery is how often the state is saved although nothing matches, so that a
	// restart after a quiet day does not read the day again.
	markEvery = 10 * time.Second
	// staleAfter is the age of the watermark at which the source counts as down. It
	// is shorter than the time after which a source that is up is reported as stuck.
	staleAfter = 45 * time.Second
	maxStreams = 5000
	maxListed  = 500 // streams in Status
)

// Source reads the streams of one tenant of a Loki.
type Source struct {
	cfg     Config
	name    string
	tenant  string
	planner planner
	options matcher.StreamOptions
	set     atomic.Pointer[rules.Set] // the active rules
	// accept is called for each new entry; ReadRange replaces it.
	accept func(st *stream, e *entry, key uint64)

	// The following fields belong to Run.
	pipe     sources.Pipeline
	asker    *asker
	used     *rules.Set // the rules of plan
	plan     plan
	unfilter bool // the server refuses filters
	maxQuery int
	fast     *round // round in progress; nil if there is none
	slow     *round
	reading  *round // the round of the current request
	fastDue  time.Time
	slowDue  time.Time
	slowWait time.Time     // when slow rounds may continue after a failure
	owed     bool          // reports whether it is the slow round's turn
	deepNext bool          // the next round reaches back as far as a slow one
	rest     time.Duration // until a fast round reaches back far enough to advance the watermark
	rounds   int
	pace     pace
	failing  time.Time // time since which requests fail; zero if they do not
	marked   time.Time
	probed   time.Time // when Loki was last asked whether the selected streams exist; zero if never
	exist    bool      // they do
	hash     xxhash.Digest
	byIndex  []*stream // streams of the current response
	metaKey  []byte

	// mu guards the following fields. Only Run changes them, except for status.
	mu        sync.Mutex
	memory    *memory
	streams   *simplelru.LRU[string, *stream]
	first     int64 // the initial floor
	covered   int64 // everything before was read by that time; zero if not set yet
	watermark int64 // start of the last round that advanced it
	deep      int64 // start of the last round with the overlap of a slow one
	latest    int   // number of the round that set covered
	active    bool  // a fast round is in progress, or fails
	warning   string
	status    sources.Status
}

// stream is one stream as seen by rules.
type stream struct {
	s           *matcher.Stream
	selfWritten bool // this program wrote it
	rules       int
	lines       int64
	read        time.Time
}

// New returns the sources of a configuration, one per tenant. It does no I/O.
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

// sourceName returns the name of the source for one tenant. With several tenants, the
// tenant follows the configured name.
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
	for _, reason := range append(reasons(), late10s, late1m, late5m, errEntry, errMemory, errClock, errWarning) {
		s.status.Errors[reason] = 0
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive
	s.asker.use, s.asker.lose, s.asker.failed, s.accept = s.use, s.lose, s.count, s.take
	return s
}

// Name returns "loki" unless the configuration sets another name, followed by the
// tenant if there are several.
func (s *Source) Name() string { return s.name }

// Serves returns which selectors streams of a Loki with this configuration can satisfy, as
// Source.Serves. cfg must be valid.
func Serves(cfg Config) func(rules.Selector) bool {
	cfg = cfg.withDefaults()
	sel, _ := selector.Parse(cfg.Selector) // Validate reports the error
	return planner{selector: sel, naming: newNaming(cfg, "")}.serves
}

// Serves reports whether the selector can match a stream of this source. The values
// that the configured selector states with "=", and the tenant, are known.
func (s *Source) Serves(from rules.Selector) bool { return s.planner.serves(from) }

// Info implements sources.Source. If new rules need other lines than the previous ones,
// the next round reaches back as far as a slow round, so that a new rule misses nothing
// that is in transit.
func (s *Source) Info() sources.Info {
	return sources.Info{Remote: true, Lateness: s.cfg.Lateness, UseRules: s.set.Store}
}

// Run reads until ctx ends, and returns nil. It starts no goroutine that outlives a
// request.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.asker.client.http.Close()
	s.begin(s.cfg.Clock().UnixNano())
	for {
		wait := s.turn(ctx)
		if !pause.Sleep(ctx, wait, nil) {
			s.mu.Lock()
			s.status.Up = false
			s.mu.Unlock()
			return nil
		}
	}
}

// begin applies the look-back if no position was restored.
func (s *Source) begin(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered == 0 {
		s.covered = now - int64(s.cfg.LookBack)
		s.watermark, s.deep = s.covered, s.covered
		s.memory.raise(s.covered)
	}
	s.first = s.memory.floor
}

// turn makes at most one request and returns how long to wait for the next turn.
func (s *Source) turn(ctx context.Context) time.Duration {
	s.replan()
	r, wait := s.next()
	if r == nil {
		return wait
	}
	if c := r.lowest(); c != nil {
		s.reading = r
		if floor := s.memory.floor; c.at < floor { // a full memory raises the floor
			*c = cursor{logql: c.logql, at: floor, end: c.end}
		}
		f := s.asker.step(ctx, c)
		if ctx.Err() != nil {
			return 0
		}
		s.settle(r)
		s.mark()
		if f != nil {
			return s.failed(r, f)
		}
	}
	if r.lowest() == nil {
		s.finish(r)
		if f := s.probe(ctx); f != nil {
			return s.failed(r, f)
		}
	}
	s.succeeded()
	return 0
}

func (s *Source) replan() {
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

// makePlan restarts the rounds: they may have read other lines than are needed now.
func (s *Source) makePlan(set *rules.Set) {
	old, had := s.plan, s.used != nil
	s.used, s.plan = set, s.planner.make(set, s.maxQuery-uncachedRoom, !s.unfilter)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.Purge()
	s.warning = s.plan.warning(s.unfilter)
	if had && !equalPlans(old, s.plan) {
		s.fast, s.slow, s.deepNext = nil, nil, true
		s.fastDue = time.Time{}
	}
}

// failed records a failure and returns how long to wait.
func (s *Source) failed(r *round, f *failure) time.Duration {
	now := time.Now()
	if s.failing.IsZero() {
		s.failing = now
	}
	again := s.adapt(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if again {
		return 0
	}
	s.active = true
	if needsOperator(f.reason) || now.Sub(s.failing) >= downAfter {
		s.status.Up, s.status.Error = false, f.err.Error()
	}
	wait := s.pace.after(f)
	if !r.fast {
		s.slowWait = now.Add(wait) // fast rounds do not wait
		return 0
	}
	return wait
}

// adapt reduces the query if the server refuses it; true: retry immediately.
func (s *Source) adapt(f *failure) bool {
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

func (s *Source) succeeded() {
	s.pace.fails, s.failing = 0, time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Up, s.status.Opened, s.status.Error = true, true, s.warning
}

func (s *Source) count(f *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Errors[f.reason]++
}

// lose counts entries that cannot be read, once: every round that reaches back so far
// encounters them again.
func (s *Source) lose(reason, logql string, at int64) {
	selector, _ := cutSelector(logql) // the rest differs each time
	s.hash.Reset()
	_, _ = s.hash.WriteString(reason + selector)
	key := s.hash.Sum64() ^ uint64(at)
	now := s.cfg.Clock().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.memory.has(at, key) {
		s.memory.add(at, key)
		s.missed(reason, lossPlace(logql, at), now)
	}
}

func (s *Source) missed(reason, where string, now time.Time) {
	l := s.status.Losses[reason]
	s.status.Losses[reason] = sources.Loss{Count: l.Count + 1, At: now, Path: where}
}
