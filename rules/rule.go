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

// Defaults and bounds of the rule language.
const (
	DefaultKeepFiringFor = 15 * time.Minute
	DefaultExpire        = 24 * time.Hour
	// DefaultSilentExpire is the default of `expire` in a rule with `silent`. It is long, because a
	// missing thing stays missing until it returns.
	DefaultSilentExpire = 30 * 24 * time.Hour
	defaultLimit        = 100
	// Lateness is the time that the watermark of files and of the Kubernetes API trails behind
	// the time up to which their lines have been read. The lint compares durations with it.
	Lateness = 10 * time.Second
	// MaxIdentity is the number of labels that the identity of a stream may have.
	MaxIdentity = 8
	// MaxHits bounds the hits that are kept for each step and key, and the value of `count`
	// with `distinct`. Of lines that are only counted, just the times are kept.
	MaxHits = 256
	// MaxCount is the maximum of `count`.
	MaxCount = 10_000
)

// DefaultIdentity lists the stream labels that are in every key. It must not be changed.
var DefaultIdentity = []string{"cluster", "tenant"}

// Severity is the label that routes an alert.
type Severity string

// The severities. SeverityNone notifies nobody. Only overrides may set it.
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
	ModeOn     Mode = "true"   // lines are counted, alerts are shown and notified
	ModeOff    Mode = "false"  // the rule is not compiled
	ModeSilent Mode = "silent" // lines are counted and alerts shown, but nobody is notified
)

// Scope says where a rule can be decided, which is on one node or for the whole cluster.
type Scope string

// The scopes. A rule with ScopeNode has `pod` in its key and in every `same`.
const (
	ScopeNode    Scope = "node"
	ScopeCluster Scope = "cluster"
)

// Origin says from whom a rule trusts log lines.
type Origin string

// The origins.
const (
	OriginInfrastructure Origin = "infrastructure"
	OriginAny            Origin = "any"
)

// Rule is one effective rule. Defaults and overrides are applied to it, and its matchers and
// templates are compiled. It is immutable.
type Rule struct {
	Alert string
	Pack  string
	File  string
	Line  int // line of `- alert:`

	// From selects the streams for the parts that state no selector of their own. Selectors
	// returns the selectors of all parts.
	From Selector
	// FromAt is the position of `from`.
	FromAt strictyaml.Pos
	// Infrastructure restricts the rule to streams of Set.Namespaces and streams without a namespace. It
	// is not part of Hash, so that a change keeps open episodes.
	Infrastructure bool
	// the matcher of `match`, or the matchers of `sequence`
	Steps    []Step
	Sequence bool
	Count    int           // at least 1
	Within   time.Duration // length of the window; zero if there is none
	Distinct string        // what is counted instead of lines, see DistinctTime; empty if lines are counted
	By       []string

	Clear  *ClearOrUnless // nil if the rule has none
	Unless *ClearOrUnless // nil if the rule has none

	For           time.Duration
	Silent        time.Duration // how long a key that was seen may write no line before the rule fires; zero if the lines themselves are the failure
	KeepFiringFor time.Duration // quiet time after which the alert resolves; only without Clear and Silent
	Expire        time.Duration // longest duration of an episode; only with Clear or Silent
	Limit         int
	Scope         Scope
	Mode          Mode
	Severity      Severity

	Labels      []NamedTemplate // sorted by name
	Annotations []NamedTemplate // sorted by name
	Remediation Remediation
	// Verified names the components in whose source code the rule's texts were found. It is
	// empty if nobody has verified the rule. It is not part of Hash.
	Verified []Verified
	Tests    []Test

	// Causes are the rules whose failures can cause the failure of this rule, in the order in
	// which they are tried. They are not part of Hash.
	Causes []Cause

	// CapturedNames lists the names whose values are kept with a hit, without duplicates. They
	// are By in its order, DistinctName, the names of `differs`, those that templates read from
	// `$vars`, and "image" if the remediation has `affects`. In a sequence, name_2 of a
	// template is listed both as name_2 and as name.
	CapturedNames []string

	// Hash is the semantic hash of everything but severity, annotations, remediation, labels,
	// symptom_of, verified, tests and origin. A rule whose hash is unchanged keeps its state
	// when rules are reloaded.
	Hash string

	// Places says where each key was set. Use SetBy to read it.
	Places Places

	// Source is the text of the rule in its pack, without its tests.
	Source string

	// Disabled is the reason of the override that set ModeOff. It is empty if none did.
	Disabled string

	// Packed is the rule as its pack states it, to which its tests apply. It is set if an
	// override changes labels, texts or causes. Nil stands for the rule itself.
	Packed *Rule

	// maxLine caches MaxLineTime. If it is nil, MaxLineTime is computed at each call.
	maxLine *lineBound
}

// lineBound is a time that is computed when it is first needed.
type lineBound struct {
	once sync.Once
	time time.Duration
}

// MaxLineTime bounds the CPU time of all expressions for any line of 16 KiB. A rule above 100 ms is not
// loaded. The first call takes up to some milliseconds.
func (r *Rule) MaxLineTime() time.Duration {
	if r.maxLine == nil {
		return maxLineTime(r)
	}
	r.maxLine.once.Do(func() { r.maxLine.time = maxLineTime(r) })
	return r.maxLine.time
}

// LineOrigin returns the effective value of the key `origin`.
func (r *Rule) LineOrigin() Origin {
	if r.Infrastructure {
		return OriginInfrastructure
	}
	return OriginAny
}

// Resolves returns the value of the label `resolves`.
func (r *Rule) Resolves() string {
	if r.Expires() {
		return "clear"
	}
	return "quiet"
}

// DistinctTime returns the unit of time, such as a minute, if `distinct` counts those, in UTC, in which
// lines matched. It returns 0 if `distinct` is the name of a value.
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

// DistinctName returns the name whose different values `distinct` counts, or "".
func (r *Rule) DistinctName() string {
	if r.DistinctTime() > 0 {
		return ""
	}
	return r.Distinct
}

// Expires reports whether a line ends the alert. Expire bounds it then, and not KeepFiringFor.
func (r *Rule) Expires() bool { return r.Clear != nil || r.Silent > 0 }

// Step is one matcher of a rule.
type Step struct {
	// From selects the streams of the step, by default those of the rule.
	From    Selector `json:"-"`
	Matcher Matcher
	// Differs names values that must differ from those of every earlier step that has them.
	Differs []string `json:",omitempty"`
}

// ClearOrUnless is the compiled form of `clear` or of `unless`.
type ClearOrUnless struct {
	// From selects the streams whose lines end or mute, by default those of the rule.
	From    Selector `json:"-"`
	Matcher Matcher
	// Same lists the names whose values the line must share, by default all of By.
	Same []string `json:",omitempty"`
	// NamespaceAdded says that Same contains `namespace` only because of the rule's origin.
	// Lines of streams without a namespace then also count.
	NamespaceAdded bool          `json:"-"`
	Within         time.Duration // how long an `unless` line mutes; zero for `clear`
	// At is the position of the key in the rule. It is zero if only an override states the key.
	At strictyaml.Pos `json:"-"`
}

// Matcher is a condition on one line, all parts of which hold. Its JSON is part of Rule.Hash.
type Matcher struct {
	In       In                   `json:",omitempty"` // empty if it equals In of the surrounding matcher or part
	Contains []string             `json:",omitempty"`
	Regex    *literals.Expression `json:",omitempty"` // must match anywhere in the line; nil if there is none
	Fields   []Field              `json:",omitempty"` // sorted by name
	Any      []Matcher            `json:",omitempty"` // alternatives, one of which must hold; the first that holds captures
	Not      *Matcher             `json:",omitempty"` // must not hold, and captures nothing
}

// In says where in a line the texts and expressions of a matcher count.
type In string

// The places. InSpoken, the default, stands for the message and the error. No pack states it.
const (
	InSpoken   In = ""
	InMessage  In = "message"
	InError    In = "error"
	InAnywhere In = "anywhere"
)

// Within returns the place of a matcher with place i inside one with the place outer.
func (i In) Within(outer In) In { return cmp.Or(i, outer) }

// Field is a condition on one field of a line.
type Field struct {
	Name  string
	Value string               // exact value of the field if Regex is nil
	Regex *literals.Expression // anchored at both ends; only named groups capture
}

// NamedTemplate is the template of one label or annotation.
type NamedTemplate struct {
	Name     string
	Template *Template
}

// Remediation describes what the person on call does. Summary and Steps are templates.
type Remediation struct {
	Summary    *Template // nil if there is no summary
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
	Line   int // line in the file of the rule
	Stream map[string]string
	Input  []Input
	Expect []Checkpoint
}

// Input is one event of a test. It is a line that arrives, a source that is lost or returns, a
// restart, the deletion of a pod, or the alert of a cause.
type Input struct {
	Line     int               `yaml:"-" json:"-"` // number of the line in the file of the rule
	At       time.Duration     `yaml:"at" bounds:"0s,1y" strict:"required" jsonschema:"required" jsonschema_description:"Time of arrival, from the start of the test."`
	TS       time.Duration     `yaml:"ts" bounds:"0s,1y" jsonschema_description:"Time of the event in a line that arrives late. Default: the value of at."` // equals At if it is not stated
	Text     string            `yaml:"line" bounds:"0,1048576" jsonschema_description:"Text of the line. {{ $value }} is the index of the repetition."`
	Labels   map[string]string `yaml:"labels" bounds:"0,64,16384" jsonschema_description:"Stream labels of this line, which override the labels of the test; \"\" removes a label. With source: the labels of a stream that this source reads. With do: gone: the labels of the deleted pod. With cause: the labels of the alert of the cause."`
	Repeat   int               `yaml:"repeat" bounds:"1,100000" jsonschema:"minimum=1" jsonschema_description:"How many times the line arrives. Default 1."` // at least 1
	Every    time.Duration     `yaml:"every" bounds:"0s,1y" jsonschema_description:"Time between repetitions."`
	Source   string            `yaml:"source" bounds:"0,4096" jsonschema:"enum=lost,enum=back" jsonschema_description:"The source that reads the stream with these labels is lost, or is back; without labels, every source. While it is lost, decisions from the absence of its lines are on hold."`
	Do       string            `yaml:"do" bounds:"0,4096" jsonschema:"enum=restart,enum=gone" jsonschema_description:"With restart, crowsnest restarts with its saved state. With gone, the pod that the labels namespace and pod name was deleted."`
	Cause    string            `yaml:"cause" bounds:"0,4096" jsonschema_description:"Name of a rule in symptom_of, whose alert fires from at on. If its failure began earlier, ts is that time. labels are the labels of the alert."`
	Until    time.Duration     `yaml:"until" bounds:"0s,1y" jsonschema_description:"The time at which the alert of cause ends. Default: it does not end."`
	HasTS    bool              `yaml:"-" json:"-"` // whether the input states ts
	HasUntil bool              `yaml:"-" json:"-"` // whether the input states until
}

// Checkpoint is what a test expects at one time.
type Checkpoint struct {
	Line     int // line in the file of the rule
	At       time.Duration
	None     bool // whether the checkpoint states `firing: none`
	Firing   []ExpectedAlert
	Resolved []ExpectedAlert
	// HasFiring reports whether the checkpoint states `firing`. It may state only `resolved`.
	HasFiring bool
}

// ExpectedAlert is a subset of an alert. A label with the value "" must be absent.
type ExpectedAlert struct {
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    *time.Duration
	EndsAt      *time.Duration
	Value       *int64
	at          strictyaml.Pos
}

// Pack is one loaded pack.
type Pack struct {
	Name    string
	Version string
	File    string
	SHA256  string // SHA-256 of the file's bytes, in hex
	Rules   []*Rule
}

// Set contains every loaded rule of every pack after overrides, including rules with ModeOff.
type Set struct {
	Packs []*Pack
	// Rules lists the rules in the order of packs and files. Their names are unique.
	Rules []*Rule
	// Namespaces are those that rules with `origin: infrastructure` trust. Nil stands for all.
	Namespaces *Namespaces
	// Warnings are the problems that do not prevent loading.
	Warnings Problems
}

// Reads reports whether a rule of the set reads a stream with these labels. If
// lenient is set, an absent label satisfies every condition.
func (s *Set) Reads(r *Rule, labels map[string]string, lenient bool) bool {
	return s.Trusts(r, labels) && r.Applies(labels, lenient)
}

// Trusts reports whether the rule's origin accepts a stream with these labels. Every rule accepts a
// stream without a namespace: a log of a node or a file that the operator named.
func (s *Set) Trusts(r *Rule, labels map[string]string) bool {
	namespace := labels["namespace"]
	return !r.Infrastructure || namespace == "" || s.Namespaces.Has(namespace)
}

// Rule returns the rule with that name, or nil.
func (s *Set) Rule(alert string) *Rule {
	if i := slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.Alert == alert }); i >= 0 {
		return s.Rules[i]
	}
	return nil
}
