package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// hashedRule has the fields of a rule from whose JSON a hash is computed. A new field must be omitted from the JSON of
// rules that do not state it. Otherwise the hash of these rules changes, and they lose their open episodes.
type hashedRule struct {
	Alert, From                string
	Steps                      []Step
	Sequence                   bool
	Count                      int
	Within                     time.Duration
	Distinct                   string
	By                         []string `json:",omitempty"`
	Clear, Unless              *ClearOrUnless
	For, KeepFiringFor, Expire time.Duration
	Silent                     time.Duration `json:",omitempty"`
	Limit                      int
	Mode                       Mode
	// Froms are the selectors of parts that differ from the rule's selector, by the name of the part.
	Froms map[string]string `json:",omitempty"`
}

// semanticHash returns a hash of the keys that decide which episodes a rule has. It does not depend on how the rule is
// written: defaults are filled in, and `match: x` equals {contains: x}.
func semanticHash(r *Rule) string {
	return hashedRule{
		Alert: r.Alert, From: r.From.String(), Steps: r.Steps, Sequence: r.Sequence,
		Count: r.Count, Within: r.Within, Distinct: r.Distinct, By: r.By, Clear: r.Clear, Unless: r.Unless,
		For: r.For, Silent: r.Silent, KeepFiringFor: r.KeepFiringFor, Expire: r.Expire, Limit: r.Limit, Mode: r.Mode, Froms: r.OwnSelectors(),
	}.hashFields()
}

// MatchHash returns a hash of the keys that decide which lines a rule matches and which values it captures. Keys that
// decide when the rule fires do not change it. A rule that is off has the hash "".
func (r *Rule) MatchHash() string {
	if r.Mode == ModeOff {
		return ""
	}
	body := hashedRule{Alert: r.Alert, From: r.From.String(), By: r.CapturedNames, Froms: r.OwnSelectors()}
	for _, s := range r.Steps {
		body.Steps = append(body.Steps, Step{Matcher: s.Matcher})
	}
	if r.Clear != nil {
		body.Clear = &ClearOrUnless{Matcher: r.Clear.Matcher}
	}
	if r.Unless != nil {
		body.Unless = &ClearOrUnless{Matcher: r.Unless.Matcher}
	}
	return body.hashFields()
}

func (h hashedRule) hashFields() string {
	text, err := json.Marshal(h)
	if err != nil {
		// texts, numbers and lists of them can always be marshaled
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// MarshalJSON returns the form of the field from which hashes are computed.
func (f Field) MarshalJSON() ([]byte, error) {
	row := [3]string{f.Name, f.Value}
	if f.Regex != nil {
		row[2] = f.Regex.String()
	}
	return json.Marshal(row)
}
