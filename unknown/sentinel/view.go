package sentinel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// Reasons why a pattern counts as a failure.
const (
	whyNew      = "new"
	whyPersists = "persists"
	whyRepeats  = "repeats" // the error repeats in a recorded log that is too short for the other criteria
	whySeen     = "seen"    // the error occurs in a recorded log that is too short to decide whether it repeats
)

// States of an UnknownFailure.
const (
	StateAlert = "alert" // an alert is open
	StateHeld  = "held"  // no alert, because the limit of alerts in 24 hours is reached
	StateKnown = "known" // no alert, because an alert for it fired within the last week
)

// UnknownFailure is a failure that no rule describes.
type UnknownFailure struct {
	Fingerprint episodes.Fingerprint `json:"fingerprint"`
	State       string               `json:"state"`
	Reason      string               `json:"why"`
	Labels      map[string]string    `json:"labels"` // labels of the component
	Pattern     redact.Text          `json:"pattern"`
	Level       discover.Level       `json:"level"`
	OtherTexts  []redact.Text        `json:"also,omitempty"` // texts of further patterns of the component
	Object      redact.Text          `json:"object,omitempty"`
	Since       time.Time            `json:"since,omitzero"` // start of the failure; absent if the lines state no time
	Last        time.Time            `json:"last,omitzero"`
	// Count is a lower bound of the number of lines, because some of many equal lines are not
	// counted.
	Count    int64         `json:"count"`
	Pods     []string      `json:"pods,omitempty"`
	Changes  []string      `json:"changes,omitempty"` // changes shortly before the failure began
	Examples []redact.Text `json:"examples"`
	// Ignore is the configuration that makes the Sentinel ignore this failure.
	Ignore string `json:"ignore"`

	line     redact.Text // first line, for writing a rule
	template redact.Text
}

// Name returns the name of the component for people.
func (u *UnknownFailure) Name() string { return nameOf(u.Labels) }

func nameOf(labels map[string]string) string {
	out := ""
	for _, label := range nameLabels {
		if v := labels[label]; v != "" {
			out = fmt.Sprintf("%s %s", label, v)
			break
		}
	}
	if ns := labels["namespace"]; ns != "" {
		out = strings.TrimSpace(out + " in namespace " + ns)
	}
	if cluster := labels["cluster"]; cluster != "" {
		out += " of cluster " + cluster
	}
	return cmp.Or(out, "a log")
}

// Rule returns the text of a pack with a rule for the failure and its tests. try checks and
// tests a pack. The error says why there is no rule.
func (u *UnknownFailure) Rule(try func(pack []byte) error) (string, error) {
	return discover.PackFor("local", string(u.line), string(u.template), u.Labels, try)
}

// changedWithin is the time in seconds before a failure within which a change counts as its
// possible cause.
const changedWithin = 1800

// unknown describes patterns of a component, the most important one first.
func (s *Sentinel) unknown(c *component, keys []uint64, why cause, object redact.Text) UnknownFailure {
	u := UnknownFailure{State: StateAlert, Reason: whyPersists, Labels: c.labels, Object: object, Examples: []redact.Text{}}
	u.Fingerprint = episodes.FingerprintOf(labelsOf(c))
	if why == isNew {
		u.Reason = whyNew
	}
	for _, key := range keys {
		p := c.find(key)
		if p == nil {
			continue
		}
		if u.Pattern == "" {
			u.Pattern, u.Level, u.line, u.template = p.text(), p.Level, p.Line, p.Template+"\n"+p.Error
			u.Pods, u.Since = slices.Clone(p.Pods), unix(p.First)
			u.Changes = s.changes(c, p)
			u.Ignore = ignoreLine(c, p)
		} else {
			u.OtherTexts = append(u.OtherTexts, p.text())
		}
		u.Count += p.Count
		if t := unix(p.Last); t.After(u.Last) {
			u.Last = t
		}
		for _, e := range p.Examples {
			if len(u.Examples) < maxExamples {
				u.Examples = append(u.Examples, e.Line)
			}
		}
	}
	if slices.Contains(u.Pods, string(u.Object)) {
		u.Object = ""
	}
	return u
}

func (s *Sentinel) changes(c *component, p *pattern) (out []string) {
	if c.imageAt > 0 && p.First >= c.imageAt && p.First-c.imageAt <= changedWithin {
		out = append(out, fmt.Sprintf("The image changed from %s to %s at %s", c.previousImage, c.image, unix(c.imageAt).Format(time.RFC3339)))
	}
	for _, x := range c.podsSeen {
		if x.Name != "" && x.Since > c.since && p.First >= x.Since && p.First-x.Since <= changedWithin {
			out = append(out, fmt.Sprintf("Pod %s is read since %s, shortly before", x.Name, unix(x.Since).Format(time.RFC3339)))
		}
	}
	return out[:min(len(out), 3)]
}

func ignoreLine(c *component, p *pattern) string {
	var parts []string
	if ns := c.namespace(); ns != "" {
		parts = append(parts, "namespace: "+quoted(ns))
	}
	if name := c.name(); name != "" {
		parts = append(parts, "component: "+quoted(name))
	}
	if text := fixedPart(p); text != "" {
		parts = append(parts, "text: "+quoted(text))
	}
	return "- {" + strings.Join(parts, ", ") + "}"
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// fixedPart returns the longest text without placeholders that a pattern and its line both
// contain.
func fixedPart(p *pattern) string {
	best := ""
	for _, whole := range []string{string(p.Error), string(p.Template)} {
		for _, part := range strings.FieldsFunc(placeholders.Replace(whole), func(r rune) bool { return r == 0 }) {
			part = strings.Trim(part, " \t:,;.()[]{}\"'`\\=")
			if len(part) > len(best) && strings.Contains(string(p.Line), part) {
				best = part
			}
		}
	}
	return best
}

var placeholders = strings.NewReplacer(
	"<num>", "\x00", "<dur>", "\x00", "<time>", "\x00", "<ip>", "\x00", "<url>", "\x00", "<path>", "\x00",
	"<obj>", "\x00", "<name>", "\x00", "<id>", "\x00", "<type>", "\x00", "<*>", "\x00", "…", "\x00", "\"", "\x00", "\\", "\x00",
)

// List returns at most n failures that have not ended, the ones with an open alert first.
func (s *Sentinel) List(now time.Time, proof Proof, n int) []UnknownFailure {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Unix()
	out := []UnknownFailure{}
	for c := range s.complainingComponents() {
		if c.alert != nil {
			u := s.unknown(c, c.alert.Patterns, c.alert.Cause, c.alert.Object)
			u.Since = unix(c.alert.StartsAt)
			out = append(out, u)
			continue
		}
		if len(s.find(c, at)) == 0 {
			continue
		}
		if found := s.find(c, s.readUpTo(c, at, proof)); len(found) > 0 {
			out = append(out, s.describeHeld(found, at))
		}
	}
	rank := map[string]int{StateAlert: 0, StateHeld: 1, StateKnown: 2}
	slices.SortFunc(out, func(a, b UnknownFailure) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), b.Since.Compare(a.Since), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return out[:min(len(out), n)]
}

// Evidence is the strength with which a recorded log suggests that a complaint is a failure.
type Evidence int

// The kinds of evidence, the strongest first.
const (
	Persistent Evidence = iota // the complaint is new or persists at the end of its component's log
	// Repeated means that the component has no persistent complaint, but this one repeats for
	// one object up to the end of the log.
	Repeated
	Single // the component has no stronger complaint, but this one was written once, as an error
)

// RecordedFailures returns at most n failures in recorded logs whose evidence is at least as strong as
// least. further is the number of other errors that no alert explains.
func (s *Sentinel) RecordedFailures(n int, least Evidence) (listed []UnknownFailure, further int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed = []UnknownFailure{}
	var repeated, single []finding
	for c := range s.complainingComponents() {
		last := int64(0)
		for _, item := range c.patterns.Items {
			last = max(last, item.Value.Last)
		}
		if found := s.find(c, last); len(found) > 0 {
			listed = append(listed, s.describeHeld(found, last))
			continue
		}
		for _, item := range c.patterns.Items {
			p := item.Value
			f := finding{component: c, pattern: p, cause: persists}
			if p.Passes || !p.urgent() && !p.Waits || s.echoes(&f) {
				continue
			}
			if p.repeats(last) {
				repeated = append(repeated, f)
			} else if p.urgent() {
				single = append(single, f)
			}
		}
	}
	further = len(repeated) + len(single)
	switch {
	case len(listed) > 0:
		further += max(0, len(listed)-n)
		slices.SortFunc(listed, func(a, b UnknownFailure) int {
			return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Fingerprint, b.Fingerprint))
		})
		return listed[:min(len(listed), n)], further
	case len(repeated) > 0 && least >= Repeated:
		listed = s.describeWeak(repeated, n, whyRepeats)
	case least >= Single:
		listed = s.describeWeak(single, n, whySeen)
	}
	return listed, further - len(listed)
}

// describeWeak describes the first n of the findings that have only weak evidence.
func (s *Sentinel) describeWeak(found []finding, n int, why string) []UnknownFailure {
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(a.compare(&b), cmp.Compare(b.pattern.Last, a.pattern.Last), strings.Compare(a.component.key, b.component.key))
	})
	out := []UnknownFailure{}
	for i := range found[:min(len(found), n)] {
		u := s.describeHeld(found[i:i+1], 0)
		u.Reason = why
		out = append(out, u)
	}
	return out
}

func (s *Sentinel) describeHeld(found []finding, now int64) UnknownFailure {
	var keys []uint64
	for i := range found[:min(len(found), maxOfAlert)] {
		keys = append(keys, found[i].pattern.Key)
	}
	f := &found[0]
	var object redact.Text
	if f.run != nil {
		object = f.run.Object
	}
	u := s.unknown(f.component, keys, f.cause, object)
	u.Since, u.State = unix(f.since()), StateHeld
	if !s.notifiable(f.component, f, now) {
		u.State = StateKnown
	}
	return u
}
