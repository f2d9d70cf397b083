package rules

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules/template"
	"crowsnest/rules/versions"
	"crowsnest/strictyaml"
)

// Defaults and bounds of the language.
const (
	DefaultKeepFiringFor = 15 * time.Minute
	DefaultExpire        = 24 * time.Hour
	// DefaultSilentExpire is the default of `expire` with `silent`: what is missing stays missing
	// until it returns, so only a key that nobody expects any more should reach it.
	DefaultSilentExpire = 30 * 24 * time.Hour
	defaultLimit        = 100
	// Lateness is how far the watermark of files and of the Kubernetes API stays
	// behind the time up to which all their lines have been read. The lint compares
	// durations with it.
	Lateness = 10 * time.Second
	// MaxIdentity is how many labels the identity of a stream may have.
	MaxIdentity = 8
	// MaxHits is the number of hits that are kept per step and key, and the maximum of
	// `count` with `distinct`. Of counted lines only the times are kept.
	MaxHits = 256
	// MaxCount is the maximum of `count`.
	MaxCount = 10_000
)

// DefaultIdentity lists the stream labels that belong to every key by default. It
// must not be changed.
var DefaultIdentity = []string{"cluster", "tenant"}

// Severity is the label that routes an alert.
type Severity string

// The severities. SeverityNone notifies nobody: only overrides set it.
const (
	SeverityCritical Severity = "critical"
	SeverityWarning  Severity = "warning"
	SeverityInfo     Severity = "info"
	SeverityNone     Severity = "none"
)

// Mode says what a rule does when it matches.
type Mode string

// The modes of `enabled`.
const (
	ModeOn     Mode = "true"   // counted, shown and notified
	ModeOff    Mode = "false"  // not compiled
	ModeSilent Mode = "silent" // counted and shown
)

// Scope says where a rule can be decided.
type Scope string

// The scopes. A rule of ScopeNode has `pod` in its key and in every `same`.
const (
	ScopeNode    Scope = "node"
	ScopeCluster Scope = "cluster"
)

// Origin says whose lines a rule trusts.
type Origin string

// The origins.
const (
	OriginInfrastructure Origin = "infrastructure"
	OriginAny            Origin = "any"
)

// Rule is one effective rule: defaults and overrides are applied, matchers and
// templates are compiled. It is immutable.
type Rule struct {
	Alert string
	Pack  string // name of its pack
	File  string
	Line  int // line of `- alert:`

	// From selects the streams of the parts that state no selector of their own. Use
	// Selectors for what the rule reads.
	From Selector
	// FromAt is the place of `from`.
	FromAt strictyaml.Pos
	// Infrastructure restricts the rule to streams of Set.Namespaces and streams
	// without a namespace. It is not part of Hash, so a change of the origin keeps
	// open episodes.
	Infrastructure bool
	// Steps holds the one matcher of `match` or the matchers of `sequence`.
	Steps    []Step
	Sequence bool
	Count    int           // at least 1
	Within   time.Duration // zero if no window
	Distinct string        // "" : count lines; see DistinctTime
	By       []string

	Clear  *ClearOrUnless // nil if the rule has none
	Unless *ClearOrUnless // nil if the rule has none

	For           time.Duration
	Silent        time.Duration // how long a key that was seen may write no line; zero if the lines themselves are the failure
	KeepFiringFor time.Duration // quiet time until the alert resolves; without Clear and Silent
	Expire        time.Duration // upper bound of an episode; with Clear or Silent
	Limit         int
	Scope         Scope
	Mode          Mode
	Severity      Severity

	Labels      []NamedTemplate // sorted by name
	Annotations []NamedTemplate // sorted by name
	Remediation Remediation
	// Verified names the components whose source has the rule's texts, none if nobody has
	// verified the rule. It is not part of Hash.
	Verified []Verified
	Tests    []Test

	// Causes are the rules whose failures cause this one, in the order in which they are
	// tried. They are not part of Hash.
	Causes []Cause

	// CapturedNames lists the names whose values a hit carries, without duplicates:
	// first By in its order, then DistinctName, the names of `differs`, those that
	// templates read from `$vars`, and "image" if the remediation has `affects`. In
	// a sequence a template's name_2 is listed as name_2 and as name.
	CapturedNames []string

	// Hash is the semantic hash of everything but severity, annotations,
	// remediation, labels, symptom_of, verified, tests and origin. A rule with an unchanged hash keeps its
	// state over a reload.
	Hash string

	// Places says where each key was set: use SetBy.
	Places Places

	// Source is the text of the rule in its pack, without its tests.
	Source string

	// Disabled is the reason of the override that set ModeOff, or "".
	Disabled string

	// Packed is the rule as its pack states it, which its tests are about; nil means the rule
	// itself. It is set if an override changes labels or texts, or the cause.
	Packed *Rule

	// maxLine is MaxLineTime, once that was asked for; nil if it is computed each time.
	maxLine *lineBound
}

// lineBound is a time that is computed when it is first needed.
type lineBound struct {
	once sync.Once
	time time.Duration
}

// MaxLineTime returns an upper bound of the CPU time that the expressions of all
// matchers take for any line of 16 KiB. A rule above 100 ms is not loaded. The first call
// takes up to some milliseconds.
func (r *Rule) MaxLineTime() time.Duration {
	if r.maxLine == nil {
		return maxLineTime(r)
	}
	r.maxLine.once.Do(func() { r.maxLine.time = maxLineTime(r) })
	return r.maxLine.time
}

// LineOrigin is the effective value of the key `origin`.
func (r *Rule) LineOrigin() Origin {
	if r.Infrastructure {
		return OriginInfrastructure
	}
	return OriginAny
}

// Resolves is the value of the label `resolves`.
func (r *Rule) Resolves() string {
	if r.Expires() {
		return "clear"
	}
	return "quiet"
}

// DistinctTime returns the unit of time that `distinct` counts, such as a minute: in how
// many of them, in UTC, lines matched. It returns 0 if `distinct` names a value of the lines.
func (r *Rule) DistinctTime() time.Duration {
	switch r.Distinct {
	case "second":
		return time.Second
	case "minute":
		return time.Minute
	case "hour":
		return time.Hour
	case "day":
		return 24 * time.Hour
	}
	return 0
}

// DistinctName returns the name whose values `distinct` counts, "" if there is none.
func (r *Rule) DistinctName() string {
	if r.DistinctTime() > 0 {
		return ""
	}
	return r.Distinct
}

// Expires reports whether a line ends the alert, so that Expire bounds it and
// KeepFiringFor has no effect.
func (r *Rule) Expires() bool { return r.Clear != nil || r.Silent > 0 }

// Step is one matcher of a rule.
type Step struct {
	// From selects the streams whose lines the step reads: the rule's From where the
	// step does not state it.
	From    Selector `json:"-"`
	Matcher Matcher
	// Differs names values that must differ from those of every earlier step
	// that has them.
	Differs []string `json:",omitempty"`
}

// ClearOrUnless is the compiled form of `clear` or of `unless`.
type ClearOrUnless struct {
	// From selects the streams whose lines end or mute: the rule's From where `clear`
	// or `unless` does not state it.
	From    Selector `json:"-"`
	Matcher Matcher
	// Same is the subset of By whose values the line must share; all of By
	// where the rule does not state it.
	Same []string `json:",omitempty"`
	// NamespaceAdded says that Same contains `namespace` only because of the rule's
	// origin. Lines whose streams have no namespace then share it.
	NamespaceAdded bool          `json:"-"`
	Within         time.Duration // duration within which `unless` counts; zero for `clear`
	// At is the place of the key in the rule; none if an override adds it.
	At strictyaml.Pos `json:"-"`
}

// Matcher is a condition on one line. All of its parts must hold. Its JSON is part of
// Rule.Hash.
type Matcher struct {
	In       In                   `json:",omitempty"` // empty: that of the matcher around it, or of the part
	Contains []string             `json:",omitempty"`
	Regex    *literals.Expression `json:",omitempty"` // matches anywhere in the line; nil if there is none
	Fields   []Field              `json:",omitempty"` // sorted by name
	Any      []Matcher            `json:",omitempty"` // one must hold; the first that does captures
	Not      *Matcher             `json:",omitempty"` // must not hold; captures nothing
}

// In says where in a line the texts and expressions of a matcher count.
type In string

// The places. InSpoken, which is not written, is the message and the error.
const (
	InSpoken   In = ""
	InMessage  In = "message"
	InError    In = "error"
	InAnywhere In = "anywhere"
)

// Within returns the place of a matcher inside of one with the place outer.
func (i In) Within(outer In) In { return cmp.Or(i, outer) }

// Field is a condition on one field of a line.
type Field struct {
	Name  string
	Value string               // exact value if Regex is nil
	Regex *literals.Expression // anchored at both ends; only named groups capture
}

// NamedTemplate is the template of one label or annotation.
type NamedTemplate struct {
	Name     string
	Template *Template
}

// Remediation describes what the on-call does. Summary and Steps are templates
// like annotations.
type Remediation struct {
	Summary    *Template // nil if there is none
	RunbookURL string
	Steps      []*Template
	Affects    []Affects
}

// Text renders the summary and the numbered steps; see template.Text.
func (r *Remediation) Text(d TemplateData, neutral func(string) string) (text string, failed int) {
	return template.Text(r.Summary, r.Steps, d, neutral)
}

// Judge compares the running image, such as "registry:5000/a/b:v1.9.5", with the
// versions that the rule lists; see versions.Judge.
func (r Remediation) Judge(image string) versions.Verdict { return versions.Judge(r.Affects, image) }

// Test is one inline test.
type Test struct {
	Name   string
	Line   int // line in the rule's file
	Stream map[string]string
	Input  []Input
	Expect []Checkpoint
}

// Input is one event of a test: a line that arrives, a source that is lost or
// back, a restart, or the deletion of a pod.
type Input struct {
	Line  int           // line in the rule's file
	At    time.Duration // arrival
	TS    time.Duration // event time; equal to At if not stated
	HasTS bool
	Text  string // text of the line, which may contain {{ $value }}
	// Labels are those of the line's stream, or of a stream that the source reads. They
	// override those of the test. None with Source: every source.
	Labels map[string]string
	Repeat int // at least 1
	Every  time.Duration
	Source string // "", "lost" or "back"
	Do     string // "", "restart" or "gone"
	// Cause is a rule of Rule.Causes whose alert fires from At until Until, if HasUntil is
	// set. Its failure began at TS, and it has the labels Labels.
	Cause    string
	Until    time.Duration
	HasUntil bool
}

// Checkpoint is what a test expects at one time.
type Checkpoint struct {
	Line     int // line in the rule's file
	At       time.Duration
	None     bool // `firing: none`
	Firing   []ExpectedAlert
	Resolved []ExpectedAlert
	// HasFiring is false where the checkpoint states only `resolved`.
	HasFiring bool
}

// ExpectedAlert is a subset of an alert. In Labels the value "" means that the
// label is absent.
type ExpectedAlert struct {
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    *time.Duration
	EndsAt      *time.Duration
	Value       *int64
}

// Pack is one loaded file.
type Pack struct {
	Name    string
	Version string
	File    string
	SHA256  string // hex, of the file's bytes
	Rules   []*Rule
}

// Set contains every loaded rule of every pack after overrides, including rules
// with ModeOff.
type Set struct {
	Packs []*Pack
	// Rules is in order of packs and files. Names are unique.
	Rules []*Rule
	// Namespaces are those whose lines rules with Infrastructure trust; nil means all.
	Namespaces *Namespaces
	// Warnings are the problems that do not prevent loading.
	Warnings Problems
}

// Reads reports whether a rule of the set reads a stream with these labels. If
// lenient is set, an absent label satisfies every condition.
func (s *Set) Reads(r *Rule, labels map[string]string, lenient bool) bool {
	return s.Trusts(r, labels) && r.Applies(labels, lenient)
}

// Trusts reports whether the rule's origin accepts a stream with these labels.
// Every rule accepts a stream without a namespace, which is a log of a node or a
// file that the operator named.
func (s *Set) Trusts(r *Rule, labels map[string]string) bool {
	namespace := labels["namespace"]
	return !r.Infrastructure || namespace == "" || s.Namespaces.Has(namespace)
}

// Rule returns the rule of that name, or nil.
func (s *Set) Rule(alert string) *Rule {
	if i := slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.Alert == alert }); i >= 0 {
		return s.Rules[i]
	}
	return nil
}
