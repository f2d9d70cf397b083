package loki

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	// maxBehind is how old an entry may be that is read after an outage. What is
	// older is counted as lost: whoever is called now needs what happens now.
	maxBehind = 24 * time.Hour
	// proveEvery is how often a fast round goes back far enough to prove.
	proveEvery = 5 * time.Second
	// longestRest bounds it where that takes long.
	longestRest = 20 * time.Second
	// downAfter is how long requests may fail until the source counts as down. A
	// connection that breaks now and then is everyday life.
	downAfter = 3 * time.Second
	// markEvery is how often the state is saved although nothing matches, so that a
	// restart after a quiet day does not read the day again.
	markEvery = 10 * time.Second
	// staleAfter is how old a proof may be until the source counts as down: it is
	// less than what makes a source that is up look stuck.
	staleAfter = 45 * time.Second
	maxStreams = 5000
	maxListed  = 500 // streams in Status
)

// Source reads the streams of one Loki that belong to one tenant.
type Source struct {
	cfg     Config
	name    string
	tenant  string
	planner planner
	options matcher.StreamOptions
	set     atomic.Pointer[rules.Set] // in force

	// What follows belongs to Run.
	pipe     sources.Pipeline
	asker    *asker
	used     *rules.Set // that plan is of
	plan     plan
	unfilter bool // the server refuses filters
	maxQuery int
	fast     *round // under way, if any
	slow     *round
	reading  *round // the one that a request is made for
	fastDue  time.Time
	slowDue  time.Time
	slowWait time.Time     // until then after a failure of a slow round
	owed     bool          // the slow round has its turn
	deepNext bool          // the next round goes back as far as a slow one
	rest     time.Duration // until a fast round goes back far enough to prove
	rounds   int
	pace     pace
	failing  time.Time // since; zero: it is not
	marked   time.Time
	hash     xxhash.Digest
	byIndex  []*stream // of the answer that is looked at
	metaKey  []byte

	// mu guards what follows. Only Run changes it, but for the status.
	mu      sync.Mutex
	memory  *memory
	streams *simplelru.LRU[string, *stream]
	first   int64 // floor at the start
	covered int64 // everything before had been read when it was that late; 0: not set yet
	proved  int64 // start of the last round that proved
	deep    int64 // start of the last round with the overlap of a slow one
	latest  int   // number of the round that covered is of
	active  bool  // a fast round is under way, or fails
	warning string
	status  sources.Status
}

// stream is one stream as rules see it.
type stream struct {
	s     *matcher.Stream
	own   bool // this program wrote it
	rules int
	lines int64
	read  time.Time
}

// New returns the sources of a configuration, one for each tenant. They read
// nothing yet.
func New(cfg Config) []*Source {
	cfg = cfg.withDefaults()
	if len(cfg.Tenants) == 0 {
		return []*Source{newSource(cfg, cfg.Name, "")}
	}
	var out []*Source
	for _, t := range cfg.Tenants {
		out = append(out, newSource(cfg, SourceName(cfg, t), t))
	}
	return out
}

// SourceName is the name of the source of one tenant. Sources of several tenants
// have the tenant behind the configured name.
func SourceName(cfg Config, tenant string) string {
	name := cfg.withDefaults().Name
	if len(cfg.Tenants) > 1 {
		name += "-" + tenant
	}
	return name
}

func newSource(cfg Config, name, tenant string) *Source {
	sel, err := rules.ParseSelector(cfg.Selector)
	if err != nil { // Validate says so
		sel = rules.Selector{}
	}
	s := &Source{
		cfg: cfg, name: name, tenant: tenant, options: cfg.streamOptions(), maxQuery: maxQuery,
		planner: planner{selector: sel, naming: newNaming(cfg, tenant)},
		asker:   newAsker(cfg, tenant),
		memory:  newMemory(0, maxKeys/max(1, len(cfg.Tenants))),
		status:  sources.Status{Name: name, Errors: map[string]int64{}, Losses: map[string]sources.Loss{}},
	}
	for _, reason := range reasons() {
		s.status.Errors[reason] = 0
	}
	for _, reason := range []string{late10s, late1m, late5m, errEntry, errMemory, errClock, errWarning} {
		s.status.Errors[reason] = 0
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive
	s.asker.use, s.asker.lose, s.asker.failed = s.use, s.lose, s.count
	return s
}

// Name is "loki" unless the configuration has another, with the tenant behind it
// if there are several.
func (s *Source) Name() string { return s.name }

// Serves tells whether the selector can hold for a stream of this source: what
// the configured selector states with "=" is known, and the tenant.
func (s *Source) Serves(from rules.Selector) bool { return s.planner.serves(from) }

// Lateness is how late an entry may come before conclusions are drawn.
func (s *Source) Lateness() time.Duration { return s.cfg.Lateness }

// UseRules tells the rules that are in force. If they need other lines than
// those before, what is read from now on goes back as far as a slow round, so
// that a new rule misses nothing that is under way.
func (s *Source) UseRules(set *rules.Set) { s.set.Store(set) }

// Remote marks the source as served by another process.
func (s *Source) Remote() {}

// Run reads until ctx ends. It starts no goroutine that outlives a request and
// returns nil.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.asker.client.close()
	s.begin(s.cfg.Clock().UnixNano())
	for {
		wait := s.turn(ctx)
		if !sleep(ctx, wait) {
			s.mu.Lock()
			s.status.Up = false
			s.mu.Unlock()
			return nil
		}
	}
}

// begin looks back where no position was restored.
func (s *Source) begin(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered == 0 {
		s.covered = now - int64(s.cfg.LookBack)
		s.proved, s.deep = s.covered, s.covered
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
		if floor := s.memory.floor; c.at < floor { // it rises where the memory is full
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
	s.succeeded()
	if r.lowest() == nil {
		s.finish(r)
	}
	return 0
}

// replan makes the plan of the rules in force.
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

// makePlan starts anew with the rounds: what they read may not be what is needed
// now.
func (s *Source) makePlan(set *rules.Set) {
	old, had := s.plan, s.used != nil
	s.used, s.plan = set, s.planner.make(set, s.maxQuery-unlikeRoom, !s.unfilter)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.Purge()
	s.warning = s.plan.warning(s.unfilter)
	if had && !equalPlans(old, s.plan) {
		s.fast, s.slow, s.deepNext = nil, nil, true
		s.fastDue = time.Time{}
	}
}

// failed notes a failure and returns how long to wait.
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
	if forPeople(f.reason) || now.Sub(s.failing) >= downAfter {
		s.status.Up, s.status.Error = false, f.err.Error()
	}
	wait := s.pace.after(f)
	if !r.fast {
		s.slowWait = now.Add(wait) // fast rounds do not wait for it
		return 0
	}
	return wait
}

// adapt asks for less where the server refuses the query; true: try at once.
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

// lose counts entries that cannot be read, once: they are met again by every
// round that goes back so far.
func (s *Source) lose(reason, logql string, at int64) {
	selector, _ := cutSelector(logql) // the rest is another one each time
	s.hash.Reset()
	_, _ = s.hash.WriteString(reason + selector)
	key := s.hash.Sum64() ^ uint64(at)
	now := s.cfg.Clock().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.memory.has(at, key) {
		s.memory.add(at, key)
		s.missed(reason, place(logql, at), now)
	}
}

func (s *Source) missed(reason, where string, now time.Time) {
	l := s.status.Losses[reason]
	s.status.Losses[reason] = sources.Loss{Count: l.Count + 1, At: now, Path: where}
}
