package rules

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/template"
	"crowsnest/rules/versions"
)

// Defaults and bounds of the rule language.
const (
	DefaultKeepFiringFor = 15 * time.Minute
	DefaultExpire        = 24 * time.Hour
	// DefaultSilentExpire is the default of `expire` in a rule with `silent`. It is long, because a component that is
	// missing may stay missing for weeks.
	DefaultSilentExpire = 30 * 24 * time.Hour
	defaultLimit        = 100
	// Lateness is the time by which the watermark of files and of the Kubernetes API is behind the time up to which
	// their lines have been read. The lint compares durations with it.
	Lateness = 10 * time.Second
	// MaxIdentity is the maximum number of labels in the identity of a stream.
	MaxIdentity = 8
	// MaxHits is the maximum number of hits that are kept for each step and key, and the maximum of `count` with
	// `distinct`. For lines that are only counted, only the times are kept.
	MaxHits = 256
	// MaxCount is the maximum of `count`.
	MaxCount = 10_000
)

// DefaultIdentity lists the stream labels that are a part of every key. It must not be changed.
var DefaultIdentity = []string{"cluster", "tenant"}

// Severity is the label that decides to whom alerts are routed.
type Severity string

// The severities. SeverityNone notifies nobody, and only overrides may set it.
const (
	SeverityCritical Severity = "critical"
	SeverityWarning  Severity = "warning"
	SeverityInfo     Severity = "info"
	SeverityNone     Severity = "none"
)

// Mode states what happens when a rule matches.
type Mode string

// The modes of `enabled`.
const (
	ModeOn     Mode = "true"   // lines are counted, alerts are shown, and receivers are notified
	ModeOff    Mode = "false"  // the rule is not compiled
	ModeSilent Mode = "silent" // lines are counted and alerts shown, but nobody is notified
)

// Scope states where a rule can be decided, on a single node or only for the whole cluster.
type Scope string

// The scopes. A rule with ScopeNode has `pod` in its key and in every `same`.
const (
	ScopeNode    Scope = "node"
	ScopeCluster Scope = "cluster"
)

// Origin states whose log lines a rule trusts.
type Origin string

// The origins.
const (
	OriginInfrastructure Origin = "infrastructure"
	OriginAny            Origin = "any"
)

// Rule is one effective rule, with defaults and overrides applied, and with compiled matchers and templates. It is
// immutable.
type Rule struct {
	Alert string
	Pack  string
	File  string
	Line  int // number of the line with `- alert:`
	// Namespace is the owner of the rule's pack. All streams of the rule are of this namespace, and its alerts always
	// have the label `namespace` with this value. Empty means that the rule belongs to the operator.
	Namespace string

	// From selects the streams for the parts without a selector of their own. The method Selectors returns the
	// selectors of all parts.
	From Selector
	// FromAt is the position of `from`.
	FromAt strictyaml.Pos
	// Infrastructure restricts the rule to streams of Set.Namespaces and streams without a namespace. It is not part of
	// Hash, so that changing it does not end open episodes.
	Infrastructure bool
	// Steps are the steps of `sequence`, or one step for `match`.
	Steps    []Step
	Sequence bool
	Count    int           // number of lines that make the rule fire; at least 1
	Within   time.Duration // length of the window; zero if the rule has none
	Distinct string        // name or unit of time whose different values are counted; empty if lines are counted
	By       []string

	Clear  *ClearOrUnless // compiled `clear`; nil if the rule has none
	Unless *ClearOrUnless // compiled `unless`; nil if the rule has none

	For           time.Duration
	Silent        time.Duration // duration without lines of a key after which the rule fires; zero if the lines themselves are the failure
	KeepFiringFor time.Duration // time without lines after which the alert resolves; used only without Clear and Silent
	Expire        time.Duration // maximum duration of an episode; used only with Clear or Silent
	Limit         int
	Scope         Scope
	Mode          Mode
	Severity      Severity

	Labels      []NamedTemplate // templates of the labels, sorted by name
	Annotations []NamedTemplate // templates of the annotations, sorted by name
	Remediation Remediation
	// Verified names the components in whose source code the rule's texts were found. It is empty if the rule is not
	// verified. It is not part of Hash.
	Verified []Verified
	Tests    []Test

	// Causes are the rules whose failures can cause the failure of this rule, in the order in
	// which they are tried. They are not part of Hash.
	Causes []Cause

	// CapturedNames lists the names whose values are kept with a hit, without duplicates. They are By in its order,
	// DistinctName, the names of `differs`, the names that templates read from `$vars`, and "image" if the remediation
	// has `affects`. A name_2 that a template of a sequence uses is listed both as name_2 and as name.
	CapturedNames []string

	// Hash is the semantic hash. It covers everything except severity, annotations, remediation, labels, symptom_of,
	// verified, tests and origin. A rule whose hash is unchanged keeps its state when rules are reloaded.
	Hash string

	// Places states where each key was set. Use SetBy to read it.
	Places Places

	// Source is the text of the rule in its pack, without its tests.
	Source string

	// Disabled is the reason in the override that set ModeOff. It is empty if no override did so.
	Disabled string

	// PackRule is the rule before overrides, to which the tests of the pack apply. It is set if an override changes
	// labels, texts or causes. Nil means the rule itself.
	PackRule *Rule

	// maxLine caches MaxLineTime. If it is nil, MaxLineTime computes its result at each call.
	maxLine *lineBound
}

// lineBound is a duration that is computed when it is first needed.
type lineBound struct {
	once sync.Once
	time time.Duration
	most time.Duration // bound that is at least time; zero if the rule was not linted
}

// MaxLineTime returns an upper bound of the CPU time of all expressions on a line of 16 KiB. A rule with a bound above
// 100 ms is not loaded. The first call takes up to some milliseconds.
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

// Resolves returns the value of the alert's label `resolves`.
func (r *Rule) Resolves() string {
	if r.Expires() {
		return "clear"
	}
	return "quiet"
}

// DistinctTime returns the unit of time, such as a minute, if `distinct` counts the different units (in UTC) that
// contain a matching line. It returns 0 if `distinct` is the name of a value.
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

// Expires reports whether a line ends the alert. Then Expire limits the duration of an episode, and KeepFiringFor is
// not used.
func (r *Rule) Expires() bool { return r.Clear != nil || r.Silent > 0 }

// Step is one matcher of a rule.
type Step struct {
	// From selects the streams of the step. The default is the selector of the rule.
	From    Selector `json:"-"`
	Matcher Matcher
	// Differs lists names whose values must differ from the values in every earlier step that has them.
	Differs []string `json:",omitempty"`
}

// ClearOrUnless is the compiled form of `clear` or of `unless`.
type ClearOrUnless struct {
	// From selects the streams whose lines end or mute the alert. The default is the selector of the rule.
	From    Selector `json:"-"`
	Matcher Matcher
	// Same lists the names whose values must be equal in the line and in the alert's key. The default is all of By.
	Same []string `json:",omitempty"`
	// NamespaceAdded is set if Same contains `namespace` only because of the rule's origin. Then lines of streams
	// without a namespace also count.
	NamespaceAdded bool          `json:"-"`
	Within         time.Duration // duration for which an `unless` line mutes; zero for `clear`
	// Pos is the position of the key in the rule. It is zero if only an override states the key.
	Pos strictyaml.Pos `json:"-"`
}

// Matcher is a condition on one line. All its fields must hold. Its JSON is part of Rule.Hash.
type Matcher struct {
	In       In                   `json:",omitempty"` // empty means the In of the surrounding matcher or part
	Contains []string             `json:",omitempty"`
	Regex    *literals.Expression `json:",omitempty"` // matches anywhere in the line; nil if there is none
	Fields   []Field              `json:",omitempty"` // conditions on fields, sorted by name
	Any      []Matcher            `json:",omitempty"` // alternatives of which one must hold; the first one that holds captures values
	Not      *Matcher             `json:",omitempty"` // must not hold; captures no values
}

// In states in which sections of a line the texts and expressions of a matcher count.
type In string

// The values of In. InSpoken, the default, means the message and the error. It cannot be written in a pack.
const (
	InSpoken   In = ""
	InMessage  In = "message"
	InError    In = "error"
	InAnywhere In = "anywhere"
)

// Within returns the effective value of In for a matcher with the value i inside a matcher with the value outer.
func (i In) Within(outer In) In { return cmp.Or(i, outer) }

// Field is a condition on one field of a line.
type Field struct {
	Name  string
	Value string               // exact value of the field; used if Regex is nil
	Regex *literals.Expression // matches the whole value; only named groups capture
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

// Text returns the summary and the numbered steps as text; see template.Text.
func (r *Remediation) Text(d TemplateData, neutral func(string) string) (text string, failed int) {
	return template.Text(r.Summary, r.Steps, d, neutral)
}

// Judge compares the running image, such as "registry:5000/a/b:v1.9.5", with the
// versions that the rule lists; see versions.Judge.
func (r Remediation) Judge(image string) versions.Verdict { return versions.Judge(r.Affects, image) }

// Test is one inline test.
type Test struct {
	Name   string
	Line   int // number of the line in the rule's file
	Stream map[string]string
	Input  []Input
	Expect []Checkpoint
}

// Input is one event of a test. The event is a line that arrives, a source that is lost or returns, a restart, the
// deletion of a pod, or the alert of a cause.
type Input struct {
	Line     int               `yaml:"-" json:"-"` // number of the line in the rule's file
	At       time.Duration     `yaml:"at" bounds:"0s,1y" strict:"required" jsonschema:"required" jsonschema_description:"Time of arrival, from the start of the test."`
	TS       time.Duration     `yaml:"ts" bounds:"0s,1y" jsonschema_description:"Time of the event in a line that arrives late. Default: the value of at."` // time of the line's timestamp; equals At unless the test states it
	Text     string            `yaml:"line" bounds:"0,1048576" jsonschema_description:"Text of the line. {{ $value }} is the index of the repetition."`
	Labels   map[string]string `yaml:"labels" bounds:"0,64,16384" jsonschema_description:"Stream labels of this line, which override the labels of the test; \"\" removes a label. With source: the labels of a stream that this source reads. With do: gone: the labels of the deleted pod. With cause: the labels of the alert of the cause."`
	Repeat   int               `yaml:"repeat" bounds:"1,100000" jsonschema:"minimum=1" jsonschema_description:"How many times the line arrives. Default 1."` // at least 1
	Every    time.Duration     `yaml:"every" bounds:"0s,1y" jsonschema_description:"Time between repetitions."`
	Source   string            `yaml:"source" bounds:"0,4096" jsonschema:"enum=lost,enum=back" jsonschema_description:"With lost, the source that reads the stream with these labels goes down, or every source if there are no labels. With back, it is up again. While a source is down, decisions from the absence of its lines are on hold."`
	Do       string            `yaml:"do" bounds:"0,4096" jsonschema:"enum=restart,enum=gone" jsonschema_description:"With restart, crowsnest restarts with its saved state. With gone, the pod that the labels namespace and pod name was deleted."`
	Cause    string            `yaml:"cause" bounds:"0,4096" jsonschema_description:"Name of a rule in symptom_of, whose alert fires from at on. If the failure of the cause began earlier, ts is that time. labels are the labels of the alert."`
	Until    time.Duration     `yaml:"until" bounds:"0s,1y" jsonschema_description:"The time at which the alert of cause ends. Default: it does not end."`
	HasTS    bool              `yaml:"-" json:"-"` // whether the test states ts
	HasUntil bool              `yaml:"-" json:"-"` // whether the test states until
}

// Checkpoint states what a test expects at one time.
type Checkpoint struct {
	Line     int // number of the line in the rule's file
	At       time.Duration
	None     bool // whether the checkpoint states `firing: none`
	Firing   []ExpectedAlert
	Resolved []ExpectedAlert
	// HasFiring reports whether the checkpoint states `firing`. A checkpoint may also state only `resolved`.
	HasFiring bool
}

// ExpectedAlert lists some properties of an alert. A label with the value "" must be absent from the alert.
type ExpectedAlert struct {
	Labels      map[string]string
	Annotations map[string]string
	StartsAt    *time.Duration
	EndsAt      *time.Duration
	Value       *int64
	pos         strictyaml.Pos
}

// Pack is one loaded pack.
type Pack struct {
	Name    string
	Version string
	File    string
	SHA256  string // SHA-256 hash of the file's bytes, in hex
	// Namespace is the owner of the pack; empty if the pack belongs to the operator.
	Namespace string
	Rules     []*Rule
}

// Set contains every loaded rule of every pack, with overrides applied, including rules with ModeOff.
type Set struct {
	Packs []*Pack
	// Rules lists the rules in the order of packs and files. Their names are unique.
	Rules []*Rule
	// Namespaces are the namespaces that rules with `origin: infrastructure` trust. Nil means all namespaces.
	Namespaces *Namespaces
	// Warnings are the problems that do not prevent loading.
	Warnings Problems
}

// Reads reports whether a rule of the set reads a stream with these labels. If
// lenient is set, an absent label satisfies every condition.
func (s *Set) Reads(r *Rule, labels map[string]string, lenient bool) bool {
	return s.Trusts(r, labels) && r.Applies(labels, lenient)
}

// Trusts reports whether the rule's origin accepts a stream with these labels. Every rule accepts a stream without a
// namespace, which is a log of a node or a file that the operator named.
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
