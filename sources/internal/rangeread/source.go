package rangeread

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

const (
	// maxBehind is the largest age of entries that are read after an outage. Older entries are
	// counted as lost, because the person on call needs the present.
	maxBehind = 24 * time.Hour
	// watermarkEvery is the interval at which a fast round starts early enough in time to
	// advance the watermark (see the package comment).
	watermarkEvery = 5 * time.Second
	maxRest        = 20 * time.Second // longest interval between rounds that advance the watermark, if they take long
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

// Source reads the streams of one tenant of a server.
type Source struct {
	dialect *Dialect
	cfg     Config
	name    string
	tenant  string
	planner planner
	options matcher.StreamOptions
	set     atomic.Pointer[rules.Set] // the active rules
	// accept is called for each new entry. ReadRange replaces it.
	accept func(st *stream, e *Entry, key uint64)

	// The following fields are used only by Run.
	pipe         sources.Pipeline
	rangeReader  *rangeReader
	plannedRules *rules.Set // set of rules for which plan was made
	plan         plan
	unfilter     bool // whether the server refuses filters
	maxQuery     int
	fast         *round // fast round in progress; nil if there is none
	slow         *round
	reading      *round // round to which the current request belongs
	fastDue      time.Time
	slowDue      time.Time
	slowWait     time.Time     // time at which slow rounds may continue after a failure
	slowTurn     bool          // whether the next request belongs to the slow round
	deepNext     bool          // whether the next round reaches back as far as a slow round
	rest         time.Duration // time left until the range of a fast round must be long enough to advance the watermark
	rounds       int
	pace         pace
	failing      time.Time // time since which requests fail; zero if they succeed
	marked       time.Time
	probed       time.Time // time of the last query that tests whether the selected streams exist; zero if there was none
	exist        bool      // whether the selected streams exist
	hash         xxhash.Digest
	byIndex      []*stream // streams of the current response, by index
	metaKey      []byte

	// mu guards the following fields. Only Run changes them, except status.
	mu        sync.Mutex
	memory    *memory
	streams   *simplelru.LRU[string, *stream]
	first     int64 // memory.floor when Run began to read, in ns since 1970
	covered   int64 // time before which all entries were read, in ns since 1970; zero before the first round
	watermark int64 // start of the last round that advanced the watermark, in ns since 1970
	deep      int64 // start of the last round that reached back as far as a slow round, in ns since 1970
	latest    int   // number of the newest round that has set covered
	active    bool  // whether a fast round is in progress or has failed
	warning   string
	status    sources.Status
}

type stream struct {
	s           *matcher.Stream
	selfWritten bool // whether this program wrote the stream
	rules       int
	lines       int64
	read        time.Time
}

// New returns the sources of a configuration, one for each tenant. cfg must be valid. It does no I/O.
func New(d *Dialect, cfg Config) (out []*Source) {
	cfg = cfg.withDefaults(d)
	if len(cfg.Tenants) == 0 {
		return []*Source{newSource(d, cfg, cfg.Name, "")}
	}
	for _, t := range cfg.Tenants {
		name := cfg.Name
		if len(cfg.Tenants) > 1 {
			name += "-" + t
		}
		out = append(out, newSource(d, cfg, name, t))
	}
	return out
}

func newSource(d *Dialect, cfg Config, name, tenant string) *Source {
	sel, _ := d.ParseSelector(cfg.Selector) // Validate reports the error
	s := &Source{
		dialect: d, cfg: cfg, name: name, tenant: tenant, options: matcher.StreamOptions{Format: matcher.FormatText, OfPods: true}, maxQuery: d.MaxQuery,
		planner:     planner{dialect: d, selector: sel, naming: newNaming(cfg, tenant)},
		rangeReader: &rangeReader{client: NewClient(d, cfg, tenant), cfg: cfg, limit: cfg.Limit, maxEntries: raised * cfg.Limit, span: maxSpan, cap: maxSpan},
		memory:      newMemory(0, cfg.MaxKeys/max(1, len(cfg.Tenants))),
		status:      sources.Status{Name: name, Errors: map[string]int64{}, Losses: map[string]sources.Loss{}},
	}
	if len(cfg.IgnoreLabels) > 0 {
		s.options.IgnoreLabels = slices.Concat(matcher.DefaultIgnoreLabels, cfg.IgnoreLabels)
	}
	for _, reason := range append(failureReasons, late10s, late1m, late5m, errEntry, errMemory, errClock, errWarning) {
		s.status.Errors[reason] = 0
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive, so there is no error
	s.rangeReader.onEntries, s.rangeReader.onLost, s.accept = s.passEntries, s.countLost, s.passEntry
	s.rangeReader.failed = func(f *Failure) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.status.Errors[f.Reason]++
	}
	return s
}

// Name returns the key of the dialect unless the configuration sets another name. If there are several tenants,
// the name ends with the tenant.
func (s *Source) Name() string { return s.name }

// Serves reports whether the selector can match a stream of this source. The source knows the
// value of the label tenant, and of the labels that the configured selector requires with "=".
func (s *Source) Serves(from rules.Selector) bool { return s.planner.serves(from) }

// Info implements sources.Source. If new rules need other lines than before, the next round
// reaches back as far as a slow round. A new rule therefore misses no lines that arrive late.
func (s *Source) Info() sources.Info {
	return sources.Info{Remote: true, Lateness: s.cfg.Lateness, UseRules: s.set.Store}
}

// Run reads until ctx ends, and returns nil. It starts no goroutine that outlives a request.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.rangeReader.client.Close()
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
			*c = cursor{query: c.query, at: floor, end: c.end}
		}
		f := s.rangeReader.step(ctx, c)
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
	if set == s.plannedRules || set == nil {
		return
	}
	if s.plannedRules != nil {
		s.unfilter = false
	}
	s.makePlan(set)
}

// makePlan makes the plan for a set of rules. It restarts the rounds, because their queries
// may lack lines that the new rules need.
func (s *Source) makePlan(set *rules.Set) {
	old, had := s.plan, s.plannedRules != nil
	s.plannedRules, s.plan = set, s.planner.makePlan(set, s.maxQuery-uncachedRoom, !s.unfilter && !s.dialect.ReadsAll)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.Purge()
	s.warning = s.plan.warning(s.dialect.Server, s.unfilter)
	if had && !(slices.Equal(old.queries, s.plan.queries) && maps.Equal(old.wanted, s.plan.wanted)) {
		s.fast, s.slow, s.deepNext = nil, nil, true
		s.fastDue = time.Time{}
	}
}

func (s *Source) recordFailure(r *round, f *Failure) time.Duration {
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
	if needsOperator(f.Reason) || now.Sub(s.failing) >= downAfter {
		s.status.Up, s.status.Error = false, f.Err.Error()
	}
	wait := s.pace.delayAfter(f)
	if !r.fast {
		s.slowWait = now.Add(wait) // fast rounds do not wait for slow ones
		return 0
	}
	return wait
}

// reduceQuery reduces a query that the server refuses. It reports whether to retry at once.
func (s *Source) reduceQuery(f *Failure) bool {
	switch {
	case s.unfilter:
		return false
	case f.Reason == ReasonQuery && s.maxQuery > minQuery:
		most := s.maxQuery / 2
		if f.Allowed > 0 && f.Allowed < s.maxQuery {
			most = f.Allowed - 1
		}
		s.maxQuery = max(most, minQuery)
	case f.Reason == ReasonQuery || f.Reason == ReasonSyntax:
		s.unfilter = true
	default:
		return false
	}
	s.makePlan(s.plannedRules)
	return true
}

func (s *Source) recordSuccess() {
	s.pace.fails, s.failing = 0, time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Up, s.status.Opened, s.status.Error = true, true, s.warning
}

// countLost counts entries that cannot be read. It counts an entry only once, although each round that reaches back far
// enough finds the entry again.
func (s *Source) countLost(reason, query string, t int64) {
	selector, _ := cutSelector(query) // the rest of the query differs each time, so it must not be part of the key
	s.hash.Reset()
	_, _ = s.hash.WriteString(reason + selector)
	key := s.hash.Sum64() ^ uint64(t)
	now := s.cfg.Clock().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.memory.has(t, key) {
		s.memory.add(t, key)
		s.recordMissed(reason, lossPlace(query, t), now)
	}
}

func (s *Source) recordMissed(reason, where string, now time.Time) {
	l := s.status.Losses[reason]
	s.status.Losses[reason] = sources.Loss{Count: l.Count + 1, Time: now, Path: where}
}

// round is one pass over a time range. After a failure it continues where it stopped.
type round struct {
	number   int
	began    int64     // wall clock time of the start; it becomes the watermark when the round is complete
	started  time.Time // time of the start by the monotonic clock
	fast     bool
	advances bool // whether the round advances the watermark (see the package comment)
	deep     bool // whether the round reaches back as far as a slow round
	// known is the time up to which everything was read before the round. It is 0 if the rules
	// have changed. A new entry from before this time arrived late.
	known   int64
	cursors []cursor
}

// lowestCursor returns the cursor with the lowest time, or nil if the round is complete.
func (r *round) lowestCursor() *cursor {
	var low *cursor
	for i := range r.cursors {
		if c := &r.cursors[i]; !c.isDone() && (low == nil || c.at < low.at) {
			low = c
		}
	}
	return low
}

// nextRound returns the round to continue or start, or the time to wait for it. A fast round
// runs to its end before anything else. Slow rounds use the time between fast rounds.
func (s *Source) nextRound() (*round, time.Duration) {
	now := time.Now()
	slow := (s.slow != nil || !now.Before(s.slowDue)) && !now.Before(s.slowWait)
	switch {
	case s.fast != nil:
	case !now.Before(s.fastDue) && !(s.slowTurn && slow):
		s.fast = s.newRound(true)
	case slow:
		if s.slow == nil {
			s.slow = s.newRound(false)
		}
		s.slowTurn = false
		return s.slow, 0
	default:
		due := s.slowDue
		if s.slowWait.After(due) || s.slow != nil {
			due = s.slowWait
		}
		if s.fastDue.Before(due) {
			due = s.fastDue
		}
		return nil, due.Sub(now)
	}
	return s.fast, 0
}

func (s *Source) newRound(fast bool) *round {
	now := s.cfg.Clock()
	at := now.UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skipTooOld(now)
	s.followClock(at)
	s.rounds++
	r := &round{number: s.rounds, began: at, started: time.Now(), fast: fast, known: s.covered}
	from := s.overlapStart(s.covered, at, s.cfg.FastOverlap)
	proving := s.overlapStart(s.watermark, at, s.cfg.Lateness)
	low := min(from, proving, s.overlapStart(s.deep, at, s.cfg.SlowOverlap))
	switch {
	case !fast || s.deepNext:
		from = low
	case at-s.watermark >= int64(max(watermarkEvery, s.rest)):
		from = min(from, proving)
	}
	r.advances, r.deep = from <= proving, from <= low
	if s.deepNext {
		r.known, s.deepNext = 0, false
	}
	to := at + s.readAhead(at, r.deep)
	for _, q := range s.plan.queries {
		if at-from > int64(freshFor) {
			q = s.makeUnique(q, at)
		}
		r.cursors = append(r.cursors, cursor{query: q, at: from, end: to})
	}
	if fast {
		s.active = true
	}
	return r
}

// freshFor is the age of times up to which Loki never caches that they have no entries, even if
// max_cache_freshness_per_query is small.
const freshFor = 20 * time.Second

// uncachedRoom is the largest length of the comment that makeUnique adds, in bytes.
const uncachedRoom = 16

// makeUnique makes a query unique by adding a comment. With cache_results, Loki caches that a query found nothing at a
// time. A repetition of the same query then misses entries that arrived in the meantime. Cache-Control: no-cache does
// not help, because Loki 3.7 drops it when it splits a query.
func (s *Source) makeUnique(query string, now int64) string {
	if !s.dialect.CachesNothingFound {
		return query
	}
	return query + " # " + strconv.FormatInt(now/second, 10)
}

// overlapStart returns the start of a range that reaches overlap back from t, because entries may arrive late.
// Everything before t was read. The start is never before the floor of the memory.
func (s *Source) overlapStart(t, now int64, overlap time.Duration) int64 {
	return max(min(t, now)-int64(overlap), s.memory.floor)
}

func (s *Source) skipTooOld(now time.Time) {
	oldest := now.Add(-maxBehind).UnixNano()
	if s.covered >= oldest {
		return
	}
	s.recordMissed(lossGap, "entries before "+now.Add(-maxBehind).UTC().Format(time.RFC3339), now.UTC())
	s.covered, s.watermark, s.deep = oldest, max(s.watermark, oldest), max(s.deep, oldest)
	s.memory.raiseFloor(oldest)
}

// followClock lowers the floor of the memory if the clock was set back to a time before the
// floor. Some entries may then be passed on twice, but otherwise new entries would be missed.
func (s *Source) followClock(now int64) {
	lowest := now - int64(s.cfg.FastOverlap)
	if s.first < now {
		lowest = max(lowest, s.first)
	}
	if s.memory.floor > lowest {
		s.memory.floor = lowest
		s.status.Errors[errClock]++
	}
}

// readAhead returns how far into the future a round reads. Fast rounds read far ahead only
// while few entries have such times, because each round reads these entries again.
func (s *Source) readAhead(now int64, deep bool) int64 {
	n := s.memory.countSince(now + int64(s.cfg.FastOverlap))
	if n > s.memory.max/2 || !deep && n > s.cfg.Limit {
		return int64(s.cfg.FastOverlap)
	}
	return int64(maxAhead)
}

// recordProgress records the progress of a round, and keeps the memory within its limit.
func (s *Source) recordProgress(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := r.lowestCursor(); r.fast && c != nil {
		s.covered = max(s.covered, min(c.at, r.began))
	}
	protect := s.covered - int64(s.cfg.FastOverlap)
	if s.fast != nil {
		if c := s.fast.lowestCursor(); c != nil {
			protect = min(protect, c.at)
		}
	}
	if s.memory.shrinkToLimit(protect) {
		s.status.Errors[errMemory]++
	}
}

func (s *Source) finishRound(r *round) {
	now := time.Now()
	if r.fast {
		s.fast, s.slowTurn = nil, true
		s.fastDue = r.started.Add(s.cfg.FastInterval)
	} else {
		s.slow = nil
	}
	if r.deep {
		// A slow round is followed by a pause of at least the same length, so that fast rounds get their turn.
		s.slowDue = r.started.Add(s.cfg.SlowInterval)
		if rested := now.Add(now.Sub(r.started)); rested.After(s.slowDue) {
			s.slowDue = rested
		}
	}
	if r.advances {
		// With many matches, a round that reaches back far enough to advance the watermark is expensive.
		s.rest = min(4*now.Sub(r.started), maxRest)
	}
	s.movePositions(r)
	s.triggerSave()
	if r.advances {
		s.pipe.AdvanceWatermark(s.name, time.Unix(0, r.began).UTC())
	}
}

// triggerSave saves the state from time to time even if nothing matches.
func (s *Source) triggerSave() {
	if now := time.Now(); now.Sub(s.marked) >= markEvery {
		s.marked = now
		s.pipe.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() {})
	}
}

// movePositions moves the saved positions to the end of the round. The memory has all entries of the round.
func (s *Source) movePositions(r *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.number > s.latest {
		s.latest, s.covered = r.number, r.began
	}
	if r.fast {
		s.active = false
	}
	if r.advances {
		s.watermark = r.began
		s.status.Watermark = time.Unix(0, r.began).UTC()
	}
	if r.deep {
		s.deep = r.began
	}
	s.memory.raiseFloor(min(s.overlapStart(s.covered, r.began, s.cfg.FastOverlap),
		s.overlapStart(s.watermark, r.began, s.cfg.Lateness), s.overlapStart(s.deep, r.began, s.cfg.SlowOverlap)))
}

// Names of counters, in addition to the reasons why requests fail.
const (
	late10s    = "late_10s" // entries that were late by at least 10 s and less than 1 min
	late1m     = "late_1m"
	late5m     = "late_5m"
	errEntry   = "bad_entry"   // an entry has an unknown form, or its time is outside the requested range
	errMemory  = "memory_full" // entries from before the floor of the memory are missed
	errClock   = "clock"       // the clock was set back
	errWarning = "warning"     // the server warns that a response may be incomplete
)

// passEntries passes on the new entries of a response in order of time. The request was for
// the range from start to end.
func (s *Source) passEntries(a *Answer, start, end int64) {
	bad := a.Bad
	s.byIndex = append(s.byIndex[:0], make([]*stream, len(a.Streams))...)
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.Time < start || e.Time >= end {
			bad++
			continue
		}
		if e.Time < s.memory.floor {
			continue
		}
		key := a.hashEntry(&s.hash, s.tenant, e)
		if s.memory.has(e.Time, key) {
			continue
		}
		s.accept(s.stream(a, e), e, key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Errors[errEntry] += int64(bad)
	if a.Warning != "" {
		s.status.Errors[errWarning]++
		s.warning = s.dialect.Server + " warns: " + shortenMessage(a.Warning)
	}
}

// passEntry passes one entry to the pipeline. It adds the entry to the memory in the same checkpoint.
func (s *Source) passEntry(st *stream, e *Entry, key uint64) {
	if st.selfWritten {
		return
	}
	text := bytes.TrimSuffix(e.Line, []byte("\n"))
	at := time.Unix(0, e.Time).UTC()
	late := s.minLateness(e.Time)
	s.pipe.Match(st.s, matcher.Record{Time: at, Text: text}, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.memory.add(e.Time, key)
		c := &s.status
		c.Lines++
		c.Bytes += int64(len(text))
		c.Evaluated++
		if len(text) > matcher.MaxLine {
			c.Truncated++
		}
		if late != "" {
			c.Errors[late]++
		}
		st.lines++
		st.read = at
	})
}

// minLateness returns the name of the counter for the lateness of a new entry, or "" if the
// entry is not late. A new entry is late if its time was read before.
func (s *Source) minLateness(ts int64) string {
	switch by := time.Duration(s.reading.known - ts); {
	case s.reading.known == 0 || by < s.cfg.FastOverlap || by < 10*time.Second:
		return ""
	case by < time.Minute:
		return late10s
	case by < 5*time.Minute:
		return late1m
	}
	return late5m
}

func (s *Source) stream(a *Answer, e *Entry) *stream {
	meta := 0
	for _, p := range e.Meta {
		if s.planner.naming.isUseful(p.Name, s.plan.wanted) {
			meta++
		}
	}
	if meta == 0 {
		if st := s.byIndex[e.Stream]; st != nil {
			return st
		}
	}
	s.metaKey = append(s.metaKey[:0], a.Streams[e.Stream].key...)
	if meta > 0 {
		s.metaKey = append(s.metaKey, 0) // separates labels and metadata, because no label name has the length 0
		for _, p := range e.Meta {
			if s.planner.naming.isUseful(p.Name, s.plan.wanted) {
				s.metaKey = appendPair(s.metaKey, p)
			}
		}
	}
	st := s.cachedStream(a, e)
	if meta == 0 {
		s.byIndex[e.Stream] = st
	}
	return st
}

func (s *Source) cachedStream(a *Answer, e *Entry) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st, ok := s.streams.Get(string(s.metaKey)); ok {
		return st
	}
	labels := s.planner.naming.labels(a.Streams[e.Stream].Labels, e.Meta, s.plan.wanted)
	st := &stream{s: matcher.NewStream(labels, s.options), selfWritten: s.selfWritten(labels)}
	for _, r := range s.plannedRules.Rules {
		if s.plannedRules.Reads(r, st.s.Labels(), false) {
			st.rules++
		}
	}
	s.streams.Add(string(s.metaKey), st)
	return st
}

// selfWritten reports whether the stream is this program's log or the output of its sinks.
func (s *Source) selfWritten(l matcher.Labels) bool {
	return l["service_name"] == ownService || s.cfg.IsOwn(l["namespace"], l["pod"])
}

const positionsVersion = 1

// positions is the saved state. Times are ns since 1970.
type positions struct {
	Version   int                     `json:"version"`
	Covered   int64                   `json:"covered"`
	Watermark int64                   `json:"proved"`
	Deep      int64                   `json:"deep"`
	Floor     int64                   `json:"floor"`
	Keys      []byte                  `json:"keys,omitempty"`
	Losses    map[string]sources.Loss `json:"losses,omitempty"`
}

// Positions returns the progress and the newest keys of the memory. Each key takes 8 bytes,
// and all tenants together save at most 131072 keys. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered == 0 {
		return nil
	}
	pos := positions{Version: positionsVersion, Covered: s.covered, Watermark: s.watermark, Deep: s.deep, Losses: s.status.Losses}
	pos.Keys, pos.Floor = s.memory.export(maxSavedKeys/max(1, len(s.cfg.Tenants)), s.covered-int64(s.cfg.FastOverlap))
	b, _ := json.Marshal(pos) // strings, numbers and times can always be encoded
	return b
}

// Restore sets the positions before Run. After an error nothing is set, and reading starts with the look-back.
func (s *Source) Restore(b json.RawMessage) error {
	if b == nil {
		return nil
	}
	var pos positions
	err := json.Unmarshal(b, &pos)
	m := newMemory(pos.Floor, s.memory.max)
	switch {
	case err != nil:
	case pos.Version != positionsVersion:
		err = fmt.Errorf("version %d is unknown", pos.Version)
	case pos.Floor <= 0 || pos.Covered < pos.Floor || pos.Watermark <= 0 || pos.Deep <= 0 || len(pos.Keys) > 32*maxSavedKeys:
		err = errors.New("they are inconsistent")
	default:
		err = m.load(pos.Keys)
	}
	if err != nil {
		return fmt.Errorf("read positions of %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory, s.covered, s.watermark, s.deep = m, pos.Covered, pos.Watermark, pos.Deep
	if pos.Losses != nil {
		s.status.Losses = pos.Losses
	}
	return nil
}

// Status returns the state of the source. It reports how far reading is behind only while there
// are entries to read. It lists at most 500 streams.
func (s *Source) Status() sources.Status {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors, st.Losses = maps.Clone(st.Errors), maps.Clone(st.Losses)
	if lag := now.Sub(time.Unix(0, s.covered)); s.active && s.covered > 0 && lag > s.cfg.FastInterval+downAfter {
		st.Lag = lag
	}
	if age := now.Sub(st.Watermark); st.Up && s.active && age > staleAfter {
		st.Up, st.Error = false, "it is catching up; read up to "+time.Unix(0, s.covered).UTC().Format(time.RFC3339)
	}
	for _, key := range s.streams.Keys() { // streams come in the order of their last use, the least recent first
		v, _ := s.streams.Peek(key)
		if v.selfWritten {
			continue
		}
		st.Streams = append(st.Streams, sources.StreamStatus{Labels: v.s.Labels(), Lines: v.lines, LastRead: v.read, Rules: v.rules})
	}
	slices.Reverse(st.Streams)
	st.Streams = st.Streams[:min(len(st.Streams), maxListed)]
	return st
}

func (p plan) warning(server string, unfilter bool) string {
	switch {
	case unfilter:
		return server + " refuses the query that reads only what rules can match: all lines of the selector are read; check its version and limits"
	case p.dropped:
		return "the texts of the rules do not fit into the queries that " + server + " accepts: all lines of the selector are read"
	case len(p.everyLine) > 0:
		names := strings.Join(p.everyLine[:min(len(p.everyLine), 5)], ", ")
		if more := len(p.everyLine) - 5; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		return fmt.Sprintf("rules without `contains` need every line of their streams (%s): add a text with `contains`", names)
	}
	return ""
}

// needsOperator reports whether only an operator can remove the cause of a failure.
func needsOperator(reason string) bool {
	switch reason {
	case ReasonAuth, ReasonRefused, ReasonSyntax, ReasonQuery, ReasonConfig, ReasonRedirect:
		return true
	}
	return false
}

const (
	// probeEvery is the interval of the queries that find out whether the selected streams exist. The queries stop as
	// soon as one stream exists.
	probeEvery = time.Minute
	probeBack  = time.Hour // largest age of an entry that proves that a stream exists
)

// probeEntry queries any entry of the selected streams, until the server has returned one. Rules match few lines, so an
// empty response to their queries does not show whether the streams or the tenant exist.
func (s *Source) probeEntry(ctx context.Context) *Failure {
	now := s.cfg.Clock()
	if s.exist || len(s.plan.queries) == 0 || !s.probed.IsZero() && now.Sub(s.probed) < probeEvery && !now.Before(s.probed) {
		return nil
	}
	s.mu.Lock()
	s.exist = s.streams.Len() > 0
	s.mu.Unlock()
	for i := 0; i < len(s.plan.queries) && !s.exist; i++ {
		var a Answer
		selector, _ := cutSelector(s.plan.queries[i])
		q := Query{Text: selector, From: now.Add(-probeBack).UnixNano(), To: now.UnixNano(), Limit: 1}
		if f := s.rangeReader.client.Query(ctx, q, &a); f != nil {
			s.rangeReader.failed(f)
			return f
		}
		s.exist = a.Count > 0
	}
	s.probed = now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Idle, s.status.IdleReason = "", ""
	if !s.exist {
		tenant := "without a tenant"
		if s.tenant != "" {
			tenant = fmt.Sprintf("for tenant %q", s.tenant)
		}
		s.status.Idle = fmt.Sprintf("%s answers %s and has no line of the last %v in any stream that %s and the rules select",
			s.dialect.Server, tenant, probeBack, s.planner.selector)
		s.status.IdleReason = sources.IdleNoLogs
	}
	return nil
}
