package episodes

import (
	"slices"

	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// awaited are the parts of a rule whose lines a conclusion waits for, with the sources that can
// serve them. It embeds their watermark. The watermark leaves out lagging streams, because a
// lagging stream delays only the conclusions that its lines could change.
type awaited struct {
	*watermark.Group
	rs    *ruleState
	parts []*part

	lags       []lag // lagging streams that one of the parts may read
	generation uint64

	waits   []Wait // the waits at waitsAt, without those for lagging streams
	waitsAt int64
}

// part is a part of a rule. keyed are the indexes of the values of `by` that its lines share
// with a key.
type part struct {
	name     string
	from     rules.Selector
	keyed    []int
	captures func() []string // names that it may capture from a line
}

// lag is a lagging stream whose lines a part may read.
type lag struct {
	*watermark.Lag
	of *part
	// needs are the values of `by` that every key has to which these lines belong.
	needs []need
	who   *intake.Identity
	// anyone is set if the identity of the stream is not known.
	anyone bool
}

type need struct {
	index int
	value string
}

func (rs *ruleState) newPart(matched matcher.Part, from rules.Selector, shared []string, captures func() []string) *part {
	p := &part{name: matched.Name(rs.rule), from: from, captures: captures}
	for i, name := range rs.rule.By {
		if slices.Contains(shared, name) {
			p.keyed = append(p.keyed, i)
		}
	}
	return p
}

// readUpTo returns a time. Every line up to that time that could change a conclusion about a
// key was read. The key has these values of `by` and this identity, or any identity if loose is
// set.
func (a *awaited) readUpTo(values []redact.Text, who *intake.Identity, loose bool) int64 {
	out := a.Watermark()
	for l := range a.delayingLags(values, who, loose) {
		out = min(out, l.Watermark())
	}
	return out
}

// readUpToForAll is readUpTo for all keys together.
func (a *awaited) readUpToForAll() int64 {
	out := a.Watermark()
	for i := range a.relevantLags() {
		out = min(out, a.lags[i].Watermark())
	}
	return out
}

// delayingLags yields the lagging streams whose lines could change a conclusion about a key.
func (a *awaited) delayingLags(values []redact.Text, who *intake.Identity, loose bool) func(func(lag) bool) {
	return func(yield func(lag) bool) {
		for _, l := range a.relevantLags() {
			if (loose || l.anyone || l.who.KeySuffix() == who.KeySuffix()) &&
				!slices.ContainsFunc(l.needs, func(n need) bool { return string(values[n.index]) != n.value }) && !yield(l) {
				return
			}
		}
	}
}

// relevantLags returns the lagging streams whose lines one of the parts may read.
func (a *awaited) relevantLags() []lag {
	all := a.Group.Lags()
	if len(all) == 0 {
		return nil
	}
	if a.generation == a.Generation() {
		return a.lags
	}
	a.lags, a.generation = nil, a.Generation()
	for _, l := range all {
		namespace := l.Stream.Labels["namespace"]
		if r := a.rs.rule; r.Infrastructure && namespace != "" && !a.rs.trusted.Has(namespace) {
			continue
		}
		for _, p := range a.parts {
			if p.from.MaySelect(l.Stream.Labels, l.Stream.Unknown) {
				a.lags = append(a.lags, a.rs.matchLag(l, p))
			}
		}
	}
	return a.lags
}

// matchLag finds out to which keys the lines of a lagging stream belong. A name in `by` is
// looked up in the captures, then in the labels of the stream, then in the fields of the line.
// So only a label that the stream has and that the part does not capture decides.
func (rs *ruleState) matchLag(l *watermark.Lag, p *part) lag {
	out := lag{Lag: l, of: p, who: rs.in.Identity(l.Stream.Labels)}
	unknown := func(name string) bool { return slices.Contains(l.Stream.Unknown, name) }
	out.anyone = slices.ContainsFunc(rs.cfg.Identity, unknown)
	captured := p.captures()
	for _, i := range p.keyed {
		name := rs.rule.By[i]
		value := l.Stream.Labels[name]
		if value == "" || unknown(name) || slices.Contains(captured, name) || value != text.Truncate(redact.Sanitise(value), intake.MaxValue) {
			continue
		}
		out.needs = append(out.needs, need{i, value})
	}
	return out
}

// onHoldFor reports whether a conclusion about a key is on hold. group means that it waits for
// sources; otherwise it waits for lagging streams. waitsFor names the ones that make no
// progress.
func (a *awaited) onHoldFor(values []redact.Text, who *intake.Identity, loose, group bool, now int64) (onHold bool, waitsFor []string) {
	if group {
		waitsFor = a.SilentSources(now)
	}
	for l := range a.delayingLags(values, who, loose) {
		if l.OnHold(now) && !slices.Contains(waitsFor, l.Name()) {
			group, waitsFor = true, append(waitsFor, l.Name())
		}
	}
	return group, waitsFor
}

// describeWaits says which parts a conclusion about a key waits for, if it is on hold.
func (a *awaited) describeWaits(values []redact.Text, who *intake.Identity, loose bool, now int64) []Wait {
	if a.waitsAt != now {
		a.waits, a.waitsAt = a.waitsForAll(now), now
	}
	out := a.waits
	for l := range a.delayingLags(values, who, loose) {
		if l.OnHold(now) {
			out = append(out[:len(out):len(out)], Wait{Part: l.of.name, From: l.of.from.String(), Sources: []string{l.Name()}})
		}
	}
	return out
}

func (a *awaited) waitsForAll(now int64) []Wait {
	var unread, silent []Wait
	for _, p := range a.parts {
		if !a.CanServe(p.from) {
			unread = append(unread, Wait{Part: p.name, From: p.from.String()})
		} else if names := a.SilentFor(p.from, now); len(names) > 0 {
			silent = append(silent, Wait{Part: p.name, From: p.from.String(), Sources: names})
		}
	}
	if len(unread) > 0 {
		return unread // no conclusion is possible, whatever the other sources do
	}
	return silent
}
