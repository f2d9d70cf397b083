package importer

import (
	"fmt"
	"time"
)

// A condition of `negate` forbids lines in a span of time. The span starts at one of the lines that occurred, which is
// called the anchor, and is moved by slide. The length of the span is window. Unless absolute is set, the time from the
// first to the last of the lines that occurred is added to the length. The rule language can express this in three
// ways: `not` for the line itself, `clear` for the time from the first to the last line, and `unless` for a time before
// or after.

// span is the expression of a condition of `negate` in the rule language.
type span struct {
	kind                  string        // same (`not`), between (`clear`) or around (`unless`)
	beforeLast, afterLast time.Duration // durations for "around", relative to the last line
}

const (
	spanSame    = "same"
	spanBetween = "between"
	spanAround  = "around"
)

// translateNegative translates the conditions on lines that must not occur.
func (m *meaning) translateNegative() error {
	var excluded, unless []pattern
	var chosen span
	for i := range m.cond.negate {
		t := &m.cond.negate[i]
		s, err := m.negateSpan(t)
		if err != nil {
			return err
		}
		forbidden, err := t.linePattern()
		if err != nil {
			return err
		}
		if s.kind == spanSame {
			excluded = append(excluded, forbidden)
			continue
		}
		if len(unless) > 0 && s != chosen {
			return refuseAt(t.at, "the conditions of `negate` forbid lines at different times (%s, %s), and a rule has one such time", chosen, s)
		}
		chosen = s
		unless = append(unless, forbidden)
	}
	if len(excluded) > 0 {
		not := anyPattern(excluded)
		m.rule.match.not = &not
		m.rule.warn("a line of `negate` excludes only itself: in the CRE it also excludes lines with exactly the same timestamp")
	}
	if len(unless) > 0 {
		m.forbidSpan(chosen, anyPattern(unless))
	}
	return nil
}

func (s span) String() string {
	if s.kind == spanBetween {
		return "between the first and the last line"
	}
	return fmt.Sprintf("from %s before the last line to %s after it", s.beforeLast, s.afterLast)
}

func (m *meaning) forbidSpan(s span, forbidden pattern) {
	r := m.rule
	if s.kind == spanBetween {
		r.clear, r.expire, m.clearing = &forbidden, defaultKeep, true
		r.warn("a line of `negate` after the alert started also resolves it")
		return
	}
	r.warn("a line of `negate` mutes until the alert fires, which waits for late lines: 10s longer than in the CRE for files and pod logs")
	r.unless, r.muteBefore, r.wait = &forbidden, max(s.beforeLast, time.Millisecond), s.afterLast
	if s.afterLast >= defaultKeep {
		r.keep = s.afterLast + defaultKeep
	}
}

// negateSpan returns the span in which a condition of `negate` forbids lines.
func (m *meaning) negateSpan(t *creTerm) (span, error) {
	refuse := func(format string, args ...any) (span, error) {
		return span{}, refuseAt(t.at, "`negate` (%s) forbids lines %s", t.text(), fmt.Sprintf(format, args...))
	}
	last := m.demandedLines() - 1
	switch {
	case t.anchor > last:
		return refuse("around line %d, and there are only %d", t.anchor+1, last+1)
	case t.window < 0:
		return refuse("in a window of %s, which is never open", t.window)
	case m.single:
		return m.spanOfOne(t, refuse)
	case t.slide == 0 && t.anchor == 0 && t.window == 0 && !t.absolute:
		return span{kind: spanBetween}, nil
	case t.slide > 0:
		return refuse("only from %s after a line: `unless` has no such gap", t.slide)
	case t.anchor == last && t.slide == 0:
		if !t.absolute {
			m.rule.warn("a line of `negate` mutes up to %s after the last line; in the CRE the time from the first to the last line is added", t.window)
		}
		return span{kind: spanAround, afterLast: t.window}, nil
	case t.anchor == 0 && !t.absolute && t.window+t.slide >= 0:
		// The span starts slide before the first line and ends after the last line.
		m.rule.warn("a line of `negate` mutes from %s before the last line; in the CRE, from %s before the first one", m.cond.window-t.slide, -t.slide)
		return span{kind: spanAround, beforeLast: m.cond.window - t.slide, afterLast: t.window + t.slide}, nil
	}
	return refuse("in a part of the time between the first and the last line (anchor %d, slide %s, window %s): a rule can forbid all of it, or a time before or after", t.anchor, t.slide, t.window)
}

// spanOfOne is like negateSpan, for a rule that fires on a single line.
func (m *meaning) spanOfOne(t *creTerm, refuse func(string, ...any) (span, error)) (span, error) {
	end := t.slide + t.window
	switch {
	case t.slide > 0:
		return refuse("only from %s after the line: `unless` has no such gap", t.slide)
	case end < 0:
		return refuse("only until %s before the line: `unless` has no such gap", -end)
	case t.slide == 0 && t.window == 0:
		return span{kind: spanSame}, nil
	}
	return span{kind: spanAround, beforeLast: -t.slide, afterLast: end}, nil
}

// demandedLines returns the number of lines that make the rule fire.
func (m *meaning) demandedLines() int {
	n := 0
	for _, t := range m.terms {
		n += max(t.cre.count, 1)
	}
	return n
}
