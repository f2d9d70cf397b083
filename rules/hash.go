package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// semanticHash hashes the parts of a rule that decide which episodes it has. The
// hash does not depend on how the rule is written: defaults are filled in, and
// `match: x` equals {contains: x}.
func semanticHash(r *Rule) string {
	steps := make([]hashedStep, len(r.Steps))
	for i, s := range r.Steps {
		steps[i] = hashedStep{Matcher: hashMatcher(&s.Matcher), Differs: s.Differs}
	}
	body := hashedRule{
		Alert: r.Alert, From: r.From.String(), Steps: steps, Sequence: r.Sequence,
		Count: r.Count, Within: r.Within, Distinct: r.Distinct, By: r.By,
		Clear: hashCondition(r.Clear), Unless: hashCondition(r.Unless),
		For: r.For, KeepFiringFor: r.KeepFiringFor, Expire: r.Expire, Limit: r.Limit, Mode: r.Mode,
	}
	return body.sum()
}

// MatchHash hashes the parts of a rule that decide which lines it matches and
// which values it captures, but not those that decide what follows from the
// lines. The hash of a rule that is off is "".
func (r *Rule) MatchHash() string {
	if r.Mode == ModeOff {
		return ""
	}
	body := hashedRule{Alert: r.Alert, From: r.From.String(), By: r.CapturedNames}
	for _, s := range r.Steps {
		body.Steps = append(body.Steps, hashedStep{Matcher: hashMatcher(&s.Matcher)})
	}
	for at, condition := range map[**hashedCondition]*ClearOrUnless{&body.Clear: r.Clear, &body.Unless: r.Unless} {
		if condition != nil {
			*at = &hashedCondition{Matcher: hashMatcher(&condition.Matcher)}
		}
	}
	return body.sum()
}

// sum hashes the fields.
func (h hashedRule) sum() string {
	text, err := json.Marshal(h)
	if err != nil {
		// Texts, numbers and lists of them always marshal.
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

type hashedRule struct {
	Alert, From                string
	Steps                      []hashedStep
	Sequence                   bool
	Count                      int
	Within                     time.Duration
	Distinct                   string
	By                         []string `json:",omitempty"`
	Clear, Unless              *hashedCondition
	For, KeepFiringFor, Expire time.Duration
	Limit                      int
	Mode                       Mode
}

type hashedStep struct {
	Matcher *hashedMatcher
	Differs []string `json:",omitempty"`
}

type hashedCondition struct {
	Matcher *hashedMatcher
	Same    []string `json:",omitempty"`
	Within  time.Duration
}

type hashedMatcher struct {
	Contains []string         `json:",omitempty"`
	Regex    string           `json:",omitempty"`
	Fields   [][3]string      `json:",omitempty"` // name, value, expression
	Any      []*hashedMatcher `json:",omitempty"`
	Not      *hashedMatcher   `json:",omitempty"`
}

func hashCondition(a *ClearOrUnless) *hashedCondition {
	if a == nil {
		return nil
	}
	return &hashedCondition{Matcher: hashMatcher(&a.Matcher), Same: a.Same, Within: a.Within}
}

func hashMatcher(m *Matcher) *hashedMatcher {
	out := &hashedMatcher{Contains: m.Contains}
	if m.Regex != nil {
		out.Regex = m.Regex.String()
	}
	for _, f := range m.Fields {
		row := [3]string{f.Name, f.Value}
		if f.Regex != nil {
			row[2] = f.Regex.String()
		}
		out.Fields = append(out.Fields, row)
	}
	for i := range m.Any {
		out.Any = append(out.Any, hashMatcher(&m.Any[i]))
	}
	if m.Not != nil {
		out.Not = hashMatcher(m.Not)
	}
	return out
}
