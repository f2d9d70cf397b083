package episodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

// life draws what happens to an engine: lines of rules of all kinds, progress of several
// sources, reloads, restarts, a clock that is set.
type life struct {
	t     *rapid.T
	now   time.Duration
	rules []*rules.Rule // of the set in force
	lines int
	at    time.Duration // of the last line
	text  string
	// labels are those of the streams.
	labels []matcher.Labels
}

// player applies what life draws to one engine.
type player struct {
	t        require.TestingT
	cfg      Config
	e        *Engine
	set      *rules.Set
	srcs     []string // known sources
	reported []Episode
	// before is called before each Evaluate; take replaces Engine.Take; both may be nil.
	before func(e *Engine, now int64)
	take   func(e *Engine, hits []matcher.Hit, now time.Time)
}

// deed is one thing that happens to an engine.
type deed func(p *player)

func newLife(t *rapid.T) *life {
	l := &life{t: t, labels: []matcher.Labels{{"namespace": ""}, {"namespace": "x"}, {"namespace": "y"}}}
	for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
		l.rules = append(l.rules, lifeRule(t, fmt.Sprint("Rule", i)))
	}
	return l
}

// lifeRule is a rule of any kind, of one of three parts of the cluster.
func lifeRule(t *rapid.T, alert string) *rules.Rule {
	r := anyRule(t)
	r.Alert, r.By = alert, []string{"namespace", "pod"}[rapid.IntRange(0, 1).Draw(t, "by"):]
	r.CapturedNames = append(slices.Clone(r.By), "v")
	from, err := selector.Parse(rapid.SampledFrom([]string{`{app="a"}`, `{app="b"}`, `{app=~".+"}`}).Draw(t, "from"))
	require.NoError(t, err)
	r.From = from
	for _, a := range []*rules.ClearOrUnless{r.Clear, r.Unless} {
		if a != nil {
			a.Same = r.By[rapid.IntRange(0, len(r.By)-1).Draw(t, "same"):]
		}
	}
	return r
}

func (l *life) player(cfg Config) *player {
	p := &player{t: l.t, cfg: cfg, set: &rules.Set{Rules: l.rules}}
	p.join("all")
	p.e = p.engine()
	return p
}

// lifeSource adds a source; each has a different lateness.
func lifeSource(e *Engine, name string) {
	if name == "all" {
		e.AddSource(name, rules.Lateness, nil)
		return
	}
	labels := map[string]string{"app": name[:1]}
	e.AddSource(name, time.Duration(len(name))*4*time.Second, func(s rules.Selector) bool { return s.Matches(labels, false) })
}

func (p *player) join(name string) {
	if !slices.Contains(p.srcs, name) {
		p.srcs = append(p.srcs, name)
	}
}

func (p *player) engine() *Engine {
	e := New(p.cfg)
	for _, name := range p.srcs {
		lifeSource(e, name)
	}
	e.Swap(p.set, start)
	return e
}

func (p *player) evaluate(now time.Duration) {
	if p.before != nil {
		p.before(p.e, instant.FromTime(at(now)))
	}
	p.reported = append(p.reported, p.e.Evaluate(at(now))...)
}

// next draws what happens next.
func (l *life) next() (string, deed) {
	t := l.t
	names := []string{"lines", "lines", "lines", "prove", "tick", "tick", "rare"}
	name := rapid.SampledFrom(names).Draw(t, "deed")
	if name == "rare" {
		name = rapid.SampledFrom([]string{"pause", "set clock", "swap", "suspend", "join", "leave", "gone", "restart", "warm up"}).Draw(t, "rare deed")
	}
	switch name {
	case "lines":
		return name, l.takes()
	case "prove":
		d := l.now - l.seconds("behind", 0, 20)
		source := rapid.SampledFrom([]string{"all", "a", "bb"}).Draw(t, "source")
		return name, func(p *player) { p.e.AdvanceWatermark(source, at(d)) }
	case "tick", "pause":
		return name, l.ticks(name == "pause")
	case "set clock":
		by := rapid.SampledFrom([]time.Duration{time.Hour, -time.Hour, 7 * time.Second, -7 * time.Second}).Draw(t, "by")
		l.now += by
		now := l.now
		return name, func(p *player) { p.e.ClockSet(by, at(now)) }
	case "swap":
		return name, l.swaps()
	}
	return name, l.rare(name)
}

func (l *life) seconds(what string, lo, hi int) time.Duration {
	return time.Duration(rapid.IntRange(lo, hi).Draw(l.t, what)) * time.Second
}

func (l *life) ticks(long bool) deed {
	d := l.seconds("pass", 0, 30)
	if long {
		d *= 20
	}
	l.now += d
	now := l.now
	return func(p *player) {
		for _, name := range p.srcs {
			if len(name) < 2 || long { // one of the sources is slow
				p.e.AdvanceWatermark(name, at(now))
			}
		}
		p.evaluate(now)
	}
}

func (l *life) takes() deed {
	t, now := l.t, l.now
	var hits []matcher.Hit
	for range rapid.IntRange(1, 6).Draw(t, "hits") {
		r := rapid.SampledFrom(l.rules).Draw(t, "rule")
		values := make([]string, len(r.By), len(r.By)+1)
		for i := range values {
			values[i] = rapid.SampledFrom([]string{"x", "y", "z-with-a-longer-name", ""}).Draw(t, "by value")
		}
		if l.lines == 0 || rapid.IntRange(0, 3).Draw(t, "another line") > 0 {
			l.lines++
			l.at = l.now - l.seconds("late", -1, 25)
			l.text = rapid.SampledFrom([]string{"", "line", "rope", "password=x line", longLine}).Draw(t, "line")
		}
		h := lineHit(r, rapid.SampledFrom(partsOf(r)).Draw(t, "part"), l.at, l.text,
			append(values, rapid.SampledFrom([]string{"", "v", "w", "secret"}).Draw(t, "v"))...)
		h.ID = uint64(l.lines)
		h.Labels = l.labels[rapid.IntRange(0, len(l.labels)-1).Draw(t, "stream")]
		hits = append(hits, h)
	}
	soon := rapid.Bool().Draw(t, "evaluated at once")
	return func(p *player) {
		if p.take != nil {
			p.take(p.e, hits, at(now))
		} else {
			p.e.Take(hits, at(now))
		}
		if soon {
			p.evaluate(now)
		}
	}
}

var longLine = fmt.Sprintf("%2000s password=y", "long")

func (l *life) swaps() deed {
	t := l.t
	var set []*rules.Rule
	for _, r := range l.rules {
		switch rapid.SampledFrom([]string{"same", "same", "other labels", "other meaning", "gone"}).Draw(t, "rule becomes") {
		case "other labels":
			c := *r
			c.Severity = rules.Severity(rapid.SampledFrom([]string{"critical", "info"}).Draw(t, "severity"))
			r = &c
		case "other meaning":
			h := r.Hash
			r = lifeRule(t, r.Alert)
			r.Hash = h + "'"
		case "gone":
			if len(l.rules) > 1 {
				continue
			}
		}
		set = append(set, r)
	}
	if len(set) == 0 {
		set = l.rules[:1]
	}
	l.rules = set
	now := l.now
	return func(p *player) {
		p.set = &rules.Set{Rules: set}
		p.e.Swap(p.set, at(now))
	}
}

func (l *life) rare(name string) deed {
	t, now := l.t, l.now
	source := rapid.SampledFrom([]string{"a", "bb"}).Draw(t, "source")
	r := rapid.SampledFrom(l.rules).Draw(t, "rule")
	switch name {
	case "suspend":
		return func(p *player) { p.e.Suspend(r, at(now)) }
	case "join":
		return func(p *player) { p.join(source); lifeSource(p.e, source) }
	case "leave":
		return func(p *player) {
			p.srcs = slices.DeleteFunc(p.srcs, func(s string) bool { return s == source })
			p.e.RemoveSource(source)
		}
	case "gone":
		return func(p *player) { p.e.PodDeleted(matcher.Labels{"namespace": "x", "pod": "y"}, at(now)) }
	case "restart":
		return func(p *player) {
			p.evaluate(now)
			data, err := p.e.Snapshot()
			require.NoError(p.t, err)
			p.e = p.engine()
			require.NoError(p.t, p.e.Restore(data, at(now)))
		}
	}
	return func(p *player) { // warm up
		if p.e.warm {
			p.e.EndWarmUp()
			return
		}
		p.e.StartWarmUp(at(now))
	}
}

// check compares two players after each deed.
func (l *life) check(a, b *player, same func(what string)) {
	var did []string
	for range rapid.IntRange(1, 40).Draw(l.t, "deeds") {
		name, do := l.next()
		did = append(did, name)
		do(a)
		do(b)
		require.Equal(l.t, b.reported, a.reported, "after %v", did)
		a.reported, b.reported = nil, nil
		same(fmt.Sprint(did))
	}
}

// walkDue concludes what is due by visiting every rule, episode and armed key, until nothing
// is due.
func walkDue(e *Engine, now int64) {
	for {
		var all []subject
		for _, rs := range e.order {
			all = append(all, walkSubjects(rs)...)
		}
		if len(all) == 0 {
			return
		}
		for _, x := range all {
			switch x := x.(type) {
			case *briefFailure:
				x.due.Disarm()
			case *armedKey:
				x.due.Disarm()
			case *episode:
				walkEpisode(x, now)
				continue
			}
			x.conclude(now)
		}
	}
}

// walkSubjects returns what is due of a rule, in its order: episodes, open and lapsed, and
// armed keys, then the overflow.
func walkSubjects(rs *ruleState) (out []subject) {
	for _, ep := range rs.sortedEpisodes() {
		out = append(out, ep)
	}
	for _, l := range rs.briefFailures {
		out = append(out, l)
	}
	for _, k := range walkArmed(rs) {
		out = append(out, k)
	}
	if rs.overflow.active {
		out = append(out, &rs.overflow)
	}
	w := rs.groups.steps.Watermark()
	out = slices.DeleteFunc(out, func(x subject) bool { return x.Due() > w })
	slices.SortStableFunc(out, func(x, y subject) int {
		_, a, k := x.subjectOf()
		_, b, l := y.subjectOf()
		return cmp.Or(cmp.Compare(a, b), strings.Compare(k, l))
	})
	return out
}

// walkArmed returns the keys of a rule with `silent`.
func walkArmed(rs *ruleState) (out []*armedKey) {
	if rs.armed != nil {
		for _, x := range rs.armed.Items {
			out = append(out, x.Value)
		}
	}
	return out
}

func walkEpisode(ep *episode, now int64) {
	if ep.rs.open[ep.key] != ep {
		return // it lost its place
	}
	w := ep.rs.groups.steps.Watermark()
	for ep.Due() <= w {
		fires, ends := ep.starts+int64(ep.rs.rule.For), ep.endTime()
		if ep.state == StatePending && fires < ends {
			ep.fire(now)
			continue
		}
		reason := ReasonQuiet
		if ep.rs.rule.Expires() {
			reason = ReasonExpired
		}
		ep.close(reason, ends, now, window.Text{})
		return
	}
}

// walkNext finds the result of NextDeadline by visiting every rule and episode.
func walkNext(e *Engine) (next time.Time, found bool) {
	due := func(rs *ruleState, d int64) {
		if t := instant.ToTime(d + rs.groups.steps.Lateness); !found || t.Before(next) {
			next, found = t, true
		}
	}
	for _, rs := range e.order {
		for _, ep := range rs.open {
			due(rs, ep.Due())
		}
		for _, l := range rs.briefFailures {
			due(rs, l.end)
		}
		for _, k := range walkArmed(rs) {
			due(rs, k.Due())
		}
		if rs.overflow.active {
			due(rs, rs.overflow.Due())
		}
	}
	return next, found
}

// The heaps of deadlines agree with a walk over all rules and episodes.
func TestDeadlinesAreThoseOfAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		cfg := Config{MaxActive: 4, UpdateEvery: l.seconds("update every", 0, 20)}
		heaps, walks := l.player(cfg), l.player(cfg)
		walks.before = walkDue
		l.check(heaps, walks, func(what string) {
			wantNext, want := walkNext(heaps.e)
			next, ok := heaps.e.NextDeadline()
			require.Equal(t, want, ok, what)
			require.Equal(t, wantNext, next, what)
			requireHeaps(t, heaps.e)
		})
	})
}

// requireHeaps checks that exactly what is open is armed, in the group of its rule.
func requireHeaps(t require.TestingT, e *Engine) {
	armed := map[*watermark.Group]map[*watermark.Deadline]bool{}
	for i, rs := range e.order {
		require.Equal(t, i, rs.pos)
		if armed[rs.groups.steps.Group] == nil {
			armed[rs.groups.steps.Group] = map[*watermark.Deadline]bool{}
			for _, d := range rs.groups.steps.Group.ArmedDeadlines() {
				armed[rs.groups.steps.Group][d] = true
			}
		}
	}
	take := func(rs *ruleState, d *watermark.Deadline) {
		require.True(t, armed[rs.groups.steps.Group][d])
		delete(armed[rs.groups.steps.Group], d)
	}
	for _, rs := range e.order {
		for _, ep := range rs.open {
			take(rs, &ep.due)
		}
		for _, l := range rs.briefFailures {
			take(rs, &l.due)
		}
		for _, k := range walkArmed(rs) {
			take(rs, &k.due)
		}
		if rs.overflow.active {
			take(rs, &rs.overflow.due)
		}
	}
	for _, left := range armed {
		require.Empty(t, left)
	}
}
