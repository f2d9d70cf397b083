package rules

import (
	"regexp"
	"time"
)

// Defaults and bounds of the language.
const (
	DefaultKeepFiringFor = 15 * time.Minute
	DefaultExpire        = 24 * time.Hour
	DefaultLimit         = 100
	// Lateness is how far the watermark of files and of the Kubernetes API
	// stays behind the time up to which they are proved to be read. The lint
	// compares durations with it.
	Lateness = 10 * time.Second
	// MaxIdentity is how many labels the identity of a stream may have.
	MaxIdentity = 8
	// MaxHits is how many hits are kept per step and key, and the greatest
	// count a rule may ask for.
	MaxHits = 256
)

// DefaultIdentity names the labels of streams that belong to every key unless the
// configuration says otherwise. It must not be changed.
var DefaultIdentity = []string{"cluster", "tenant"}

// Severity is the label that routes an alert.
type Severity string

// The severities. SeverityNone routes nowhere: only overrides set it.
const (
	SeverityCritical Severity = "critical"
	SeverityWarning  Severity = "warning"
	SeverityInfo     Severity = "info"
	SeverityNone     Severity = "none"
)

// Mode says what a rule that matches does.
type Mode string

// The modes of `enabled`.
const (
	ModeOn     Mode = "true"   // counts, shows and alerts
	ModeOff    Mode = "false"  // not compiled
	ModeSilent Mode = "silent" // counts and shows
)

// Scope says where a rule may be concluded.
type Scope string

// The scopes. A node-safe rule has `pod` in its key and in every `same`.
const (
	ScopeNode    Scope = "node"
	ScopeCluster Scope = "cluster"
)

// Origin says whose lines a rule believes.
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
	Line  int // of `- alert:`

	From Selector
	// Infrastructure restricts the rule to streams of Set.Namespaces and streams
	// without a namespace. It is not part of Hash: which lines a rule believes
	// does not change what is open.
	Infrastructure bool
	// Steps holds the one matcher of `match` or the matchers of `sequence`.
	Steps    []Step
	Sequence bool
	Count    int           // at least 1
	Within   time.Duration // 0: no window
	Distinct string        // "" : lines are counted
	By       []string

	Clear  *ClearOrUnless // nil: the rule has none
	Unless *ClearOrUnless // nil: the rule has none

	For           time.Duration
	KeepFiringFor time.Duration // quiet time that resolves; without Clear
	Expire        time.Duration // upper bound; with Clear
	Limit         int
	Scope         Scope
	Mode          Mode
	Severity      Severity

	Labels      []NamedTemplate // sorted by name
	Annotations []NamedTemplate // sorted by name
	Remediation Remediation
	Tests       []Test

	// CapturedNames lists the names whose values a hit carries, each once: first By in
	// its order, then Distinct, the names of `differs`, those that templates
	// take from `$vars`, and "image" if the remediation says what it affects.
	// In a sequence a template's name_2 is listed as name_2 and as name.
	CapturedNames []string

	// Hash is the semantic hash: of everything but severity, annotations,
	// remediation, labels and tests. A rule whose hash is unchanged keeps its
	// state over a reload.
	Hash string

	// Origin tells for each key that was set, where: "pack file:line",
	// "defaults file:line", "override file:line" or, if absent here, "default".
	Origin map[string]string

	// Source is the text of the rule in its pack, without its tests.
	Source string

	// Disabled is the reason that an override gave for ModeOff, or "".
	Disabled string

	// MaxLineTime is the most that the expressions of all matchers may take for
	// one line of 16 KiB, whatever it holds. A rule with more than 100 ms is
	// not loaded.
	MaxLineTime time.Duration
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
	if r.Clear != nil {
		return "clear"
	}
	return "quiet"
}

// Step is one matcher of a rule.
type Step struct {
	Matcher Matcher
	// Differs names values that must differ from those of every earlier step
	// that has them.
	Differs []string
}

// ClearOrUnless is a matcher beside the trigger: `clear` or `unless`.
type ClearOrUnless struct {
	Matcher Matcher
	// Same is the subset of By whose values the line must share; all of By
	// where the rule does not state it.
	Same []string
	// NamespaceAdded says that Same has `namespace` because of the origin of the rule. A
	// line whose stream has none then shares it with others that have none.
	NamespaceAdded bool
	Within         time.Duration // of `unless`; 0 for `clear`
}

// Matcher is a condition on one line. All of its parts must hold.
type Matcher struct {
	Contains []string
	Regex    *regexp.Regexp // searched for in the line; nil: none
	Fields   []Field        // sorted by name
	Any      []Matcher      // one of these, the first in order gives the captures
	Not      *Matcher       // must not hold; its captures are not used
}

// Field is a condition on one field of a line.
type Field struct {
	Name  string
	Value string         // exact value if Regex is nil
	Regex *regexp.Regexp // anchored at both ends; only named groups capture
}

// NamedTemplate is the template of one label or annotation.
type NamedTemplate struct {
	Name     string
	Template *Template
}

// Remediation tells the on-call what to do. Summary and Steps are templates
// like annotations.
type Remediation struct {
	Summary    *Template // nil: none
	RunbookURL string
	Steps      []*Template
	Affects    []Affects
}

// Affects says which versions of which component have the failure.
type Affects struct {
	Component string `yaml:"component"`
	Image     string `yaml:"image"`    // whole parts of the path of the image's repository; "" : not compared
	Versions  string `yaml:"versions"` // semver constraint
	FixedIn   string `yaml:"fixed_in"`
	Ref       string `yaml:"ref"`
}

// Test is one inline test.
type Test struct {
	Name   string
	Line   int // in the rule's file
	Stream map[string]string
	Input  []Input
	Expect []Checkpoint
}

// Input is one thing that happens in a test: lines that arrive, a source that
// is lost or back, or a restart.
type Input struct {
	Line   int           // in the rule's file
	At     time.Duration // arrival
	TS     time.Duration // event time; equal to At if not stated
	HasTS  bool
	Text   string // of the line; may contain {{ $value }}
	Labels map[string]string
	Repeat int // at least 1
	Every  time.Duration
	Source string // "", "lost" or "back"
	Do     string // "" or "restart"
}

// Checkpoint is what a test expects at one time.
type Checkpoint struct {
	Line     int // in the rule's file
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

// Set is what was loaded: every rule of every pack after overrides, those with
// ModeOff included.
type Set struct {
	Packs []*Pack
	// Rules is in order of packs and files. Names are unique.
	Rules []*Rule
	// Namespaces are those whose lines rules with Infrastructure believe; nil: all.
	Namespaces *Namespaces
	// Warnings are the problems that do not prevent loading.
	Warnings Problems
}

// Reads reports whether a rule of the set reads a stream with these labels. An
// absent label satisfies every condition if lenient is set.
func (s *Set) Reads(r *Rule, labels map[string]string, lenient bool) bool {
	return s.Trusts(r, labels) && r.From.Matches(labels, lenient)
}

// Trusts reports whether the origin of a stream is one that the rule believes:
// any rule believes a stream without a namespace, which is a log of a node or a
// file that the operator named.
func (s *Set) Trusts(r *Rule, labels map[string]string) bool {
	namespace := labels["namespace"]
	return !r.Infrastructure || namespace == "" || s.Namespaces.Has(namespace)
}

// Rule returns the rule of that name, or nil.
func (s *Set) Rule(alert string) *Rule {
	for _, r := range s.Rules {
		if r.Alert == alert {
			return r
		}
	}
	return nil
}
