package rules

import (
	"time"

	"crowsnest/internal/strictyaml"
)

// The types of this file are the YAML form of packs and overrides, and the source of the JSON Schema. Keys holds the
// positions of keys and values for messages.

// PackFile is a file with the rules of one pack.
type PackFile struct {
	Pack     PackHeader     `yaml:"pack" jsonschema:"required" jsonschema_description:"Name and version of the pack, and the number of its rules and tests. One pack per file."`
	Defaults DefaultsSyntax `yaml:"defaults" jsonschema_description:"Values for rules of this pack that do not state their own."`
	Rules    []RuleSyntax   `yaml:"rules" bounds:"0,5000" jsonschema:"required,minItems=1" jsonschema_description:"The rules of the pack."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// PackHeader names a pack.
type PackHeader struct {
	Name     string `yaml:"name" bounds:"0,4096" strict:"required" jsonschema:"required,minLength=1" jsonschema_description:"Name of the pack, for overrides (pack:NAME) and metrics."`
	Version  string `yaml:"version" bounds:"0,4096" jsonschema_description:"Version of the pack, shown with its rules. It is not compared."`
	Requires string `yaml:"requires" bounds:"0,4096" jsonschema_description:"Versions of crowsnest that can run the pack, such as \">=0.1\". Other versions refuse the pack."`
	Rules    int    `yaml:"rules" bounds:"0,5000" jsonschema:"minimum=1" jsonschema_description:"Number of rules in the file. A file with more or fewer rules is refused, because it is probably truncated."`
	Tests    int    `yaml:"tests" bounds:"0,1000000" jsonschema:"minimum=1" jsonschema_description:"Number of inline tests of all rules. A file with more or fewer tests is refused."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// DefaultsSyntax are the defaults for the rules of a pack.
type DefaultsSyntax struct {
	Severity Severity          `yaml:"severity" bounds:"0,4096" jsonschema:"enum=critical,enum=warning,enum=info,enum=none" jsonschema_description:"Severity of rules that state none."`
	Labels   map[string]string `yaml:"labels" bounds:"0,64,16384" jsonschema_description:"Labels that are added to each rule. The rule's own labels take precedence."`
	Origin   Origin            `yaml:"origin" bounds:"0,4096" jsonschema:"enum=infrastructure,enum=any" jsonschema_description:"Origin of rules that state none."`
	Verified VerifiedList      `yaml:"verified" bounds:"0,20" jsonschema_description:"Value of verified in rules that do not state it: the versions of a component whose source code contains their texts."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// RuleSyntax is the YAML form of one rule.
type RuleSyntax struct {
	Alert string `yaml:"alert" bounds:"0,4096" jsonschema:"required,minLength=1" jsonschema_description:"Name of the alert (alertname), unique among all packs, in CamelCase with the component first."`
	From  string `yaml:"from" bounds:"0,16384" jsonschema:"required" jsonschema_description:"Selector of the log streams, as in Prometheus and Loki: {label=\"value\"} with = != =~ !~. clear, unless and the steps of a sequence may have selectors of their own. Streams of Kubernetes have the labels namespace, pod and container, and the labels that the source adds. A selector must require a value of some label, or state the label component: {container=~\"etcd|\", component=\"\"} selects logs of a container, and files without labels."`

	Origin Origin `yaml:"origin" bounds:"0,4096" jsonschema:"enum=infrastructure,enum=any" jsonschema_description:"Whose lines the rule trusts. With infrastructure: only streams of the namespaces in the setting rules.infrastructure_namespaces, and streams without a namespace. With any: every stream that from selects, so anybody who can run a pod can raise the alert. Default any."`

	Match    *MatcherSyntax `yaml:"match" jsonschema_description:"The lines that trigger the rule: a text that they contain, or a matcher. A rule has either match or sequence."`
	Sequence []StepSyntax   `yaml:"sequence" bounds:"0,32" jsonschema_description:"Matchers of lines that must follow each other in this order. The time from the first line to the last line must be shorter than within. A rule has either match or sequence."`
	Count    int            `yaml:"count" bounds:"1,10000" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"Number of lines with the same key that triggers the rule, or, with distinct, number of different values (at most 256). A count above 1 needs within. Default 1."`
	Within   time.Duration  `yaml:"within" bounds:"1ms,1y" jsonschema_description:"Sliding time window of count, or the longest time from the first line of a sequence to its last line."`
	Distinct string         `yaml:"distinct" bounds:"0,4096" jsonschema_description:"Name whose different values are counted instead of lines, such as pod. It needs a count of 2 or more. With second, minute, hour or day, the rule counts the seconds, minutes, hours or days (in UTC) in which lines matched."`
	By       []string       `yaml:"by" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"The key: names of captures, stream labels or fields, looked up in this order. Lines with the same values belong to the same failure. The names become labels of the alert. Default: one key for all lines."`

	Clear         *ClearSyntax  `yaml:"clear" jsonschema_description:"The line that ends the failure: it drops a pending alert, and resolves a firing alert at the time of the line. Without clear, the alert resolves when no line has matched for keep_firing_for."`
	Unless        *UnlessSyntax `yaml:"unless" jsonschema_description:"A line that prevents the alert, such as the announcement of maintenance. The line may come up to within before the trigger, or after the trigger until the alert fires."`
	For           time.Duration `yaml:"for" bounds:"0s,1y" jsonschema_description:"How long the failure must last before the alert fires. With clear: the time without a clear line. Without clear: the time for which lines continue to match, with gaps shorter than keep_firing_for. Default 0: the alert fires immediately."`
	Silent        time.Duration `yaml:"silent" bounds:"1ms,1y" jsonschema_description:"The alert fires when lines of a key, such as those of a heartbeat or a backup, have stopped for this time. It resolves with the next line. A key that was never seen raises no alert. Cannot be combined with sequence, count, within, distinct, for, clear and keep_firing_for."`
	KeepFiringFor time.Duration `yaml:"keep_firing_for" bounds:"0s,1y" jsonschema_description:"For rules without clear: the time without matching lines after which the alert resolves. Default 15m."`
	Expire        time.Duration `yaml:"expire" bounds:"0s,1y" jsonschema_description:"For rules with clear or silent. With clear: the alert resolves this long after the last trigger even if no line has cleared it; default 24h. With silent: the longest time for which the alert fires; default 30d."`
	Limit         int           `yaml:"limit" bounds:"1,10000" jsonschema:"minimum=1" jsonschema_description:"Maximum number of keys with an open failure. One alert with overflow=\"true\" represents all further keys. Namespaces share the limit: a namespace with fewer open keys displaces keys of the namespace with the most. Default 100."`
	Scope         Scope         `yaml:"scope" bounds:"0,4096" jsonschema:"enum=node,enum=cluster" jsonschema_description:"Where the rule can be decided: on the node that logs its lines, or where the lines of all nodes are collected. crowsnest computes it."`
	Severity      Severity      `yaml:"severity" bounds:"0,4096" jsonschema:"enum=critical,enum=warning,enum=info,enum=none" jsonschema_description:"critical pages somebody, warning opens a ticket, and info informs. Required here or in defaults."`

	SymptomOf []CauseSyntax `yaml:"symptom_of" bounds:"0,32" jsonschema_description:"Rules whose failures cause the failure of this rule, the most likely first. While an alert of one of them fires, the alert of this rule names it as its cause."`

	Labels      map[string]string `yaml:"labels" bounds:"0,64,16384" jsonschema_description:"Further labels of the alert, for routing. Their templates may use only $labels, with names in by."`
	Annotations map[string]string `yaml:"annotations" bounds:"0,64,16384" jsonschema_description:"Annotations of the alert, which are templates. summary says in one sentence what is broken, and description says more."`
	Remediation RemediationSyntax `yaml:"remediation" jsonschema_description:"What the person on call should do. Sent as annotations."`
	Verified    VerifiedList      `yaml:"verified" bounds:"0,20" jsonschema_description:"The versions of a component whose source code contains the rule's texts, or a list for several components. With none, nobody could verify the rule, and the default of the pack does not apply."`
	Tests       []TestSyntax      `yaml:"tests" bounds:"0,1000" strict:"anchors" jsonschema_description:"Inline tests, which crowsnest test rules runs, and the daemon whenever it loads the pack. YAML anchors and aliases are allowed here."`
	Enabled     Mode              `yaml:"enabled" bounds:"0,4096" jsonschema_description:"true, false, or silent. A silent rule is counted and shown but raises no alert. Default true."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// Parts are the conditions of a matcher, all of which must hold.
type Parts struct {
	Contains strictyaml.Strings `yaml:"contains" bounds:"0,256,16384" jsonschema_description:"Text that the line contains, compared byte by byte, or a list of texts. The line must contain all of them."`
	Regex    string             `yaml:"regex" bounds:"0,16384" jsonschema_description:"RE2 expression that may match anywhere in the line. A named group, (?P<name>...), captures a value for by, distinct and templates."`
	Field    map[string]string  `yaml:"field" bounds:"0,64,16384" jsonschema_description:"Maps names of fields to conditions, alike for klog, JSON, logfmt and lines of zap's console encoder. A condition is a value, or \"~\" and an anchored RE2 expression whose named groups capture values. msg is the quoted message of klog, a dotted name is a nested field, and an object {namespace, name} has the value namespace/name. An absent field satisfies no condition."`
	In       In                 `yaml:"in" bounds:"0,4096" jsonschema:"enum=message,enum=error,enum=anywhere" jsonschema_description:"Where contains and regex search: in the message, in the error (the field err, error or cause, on one line), or anywhere, including other fields, quoted strings and values of several lines, which may repeat text of another program. Default: message and error, but only the message inside clear and unless."`
	Any      []MatcherSyntax    `yaml:"any" bounds:"0,1000" jsonschema:"minItems=1" jsonschema_description:"List of matchers, at least one of which must match. The first one that matches captures the values."`
	Not      *MatcherSyntax     `yaml:"not" jsonschema_description:"Matcher that must not match. A matcher with not alone is refused, because it would match nearly every line."`
}

// MatcherSyntax is a matcher. Its YAML is a text that the line must contain, or a mapping.
type MatcherSyntax struct {
	Parts `yaml:",inline"`
	Keys  strictyaml.Keys `yaml:"-" json:"-"`
}

// StepSyntax is one step of a sequence. Its YAML is a text or a mapping.
type StepSyntax struct {
	From    string `yaml:"from" bounds:"0,16384" jsonschema_description:"Selector of the streams whose lines the step reads. Default: the rule's from."`
	Parts   `yaml:",inline"`
	Differs []string        `yaml:"differs" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"Names whose values must differ from their values in every earlier step that has them. For example, pod requires a line of another replica."`
	Keys    strictyaml.Keys `yaml:"-" json:"-"`
}

// ClearSyntax is the matcher of `clear`. Its YAML is a text or a mapping.
type ClearSyntax struct {
	From  string `yaml:"from" bounds:"0,16384" jsonschema_description:"Selector of the streams whose lines end the failure, such as those of another source. Default: the rule's from."`
	Parts `yaml:",inline"`
	Same  []string        `yaml:"same" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"The names of the key (by) whose values a clear line must share with the alert, if clear lines do not contain all names. Default: all names of the key."`
	Keys  strictyaml.Keys `yaml:"-" json:"-"`
}

// UnlessSyntax is the matcher of `unless`.
type UnlessSyntax struct {
	From   string `yaml:"from" bounds:"0,16384" jsonschema_description:"Selector of the streams whose lines mute the failure, such as those of another source. Default: the rule's from."`
	Parts  `yaml:",inline"`
	Same   []string        `yaml:"same" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"The names of the key (by) whose values a muting line must share with the alert, if muting lines do not contain all names. Default: all names of the key."`
	Within time.Duration   `yaml:"within" bounds:"1ms,1y" jsonschema:"required" jsonschema_description:"A muting line prevents the alert if it comes at most this long before the trigger."`
	Keys   strictyaml.Keys `yaml:"-" json:"-"`
}

// CauseSyntax is one cause in `symptom_of`. Its YAML is the name of a rule or a mapping.
type CauseSyntax struct {
	Alert string          `yaml:"alert" bounds:"0,4096" strict:"required" jsonschema:"required,minLength=1" jsonschema_description:"Name of the rule that reports the cause."`
	Same  []string        `yaml:"same" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"Labels that both alerts must have, with equal values. With [], any alert of that rule in the same cluster is a cause. Default: the names that are in the keys (by) of both rules."`
	Lag   time.Duration   `yaml:"lag" bounds:"0s,24h" jsonschema_description:"For a cause that is detected late: the longest time from the start of the symptom to the start of the cause. Default 0."`
	Keys  strictyaml.Keys `yaml:"-" json:"-"`
}

// RemediationSyntax describes what the person on call does.
type RemediationSyntax struct {
	Summary    string          `yaml:"summary" bounds:"0,16384" jsonschema_description:"What to do, in a sentence or two. A template, like annotations."`
	RunbookURL string          `yaml:"runbook_url" bounds:"0,4096" jsonschema_description:"Absolute http or https URL of the runbook. Not a template."`
	Steps      []string        `yaml:"steps" bounds:"0,100,16384" jsonschema_description:"Commands and checks, in order. Templates, like annotations."`
	Affects    []AffectsSyntax `yaml:"affects" bounds:"0,100" jsonschema_description:"The versions of components that have the failure."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// AffectsSyntax states which versions of a component have the failure.
type AffectsSyntax struct {
	Affects `yaml:",inline"`
	Keys    strictyaml.Keys `yaml:"-" json:"-"`
}

// TestSyntax is one inline test.
type TestSyntax struct {
	Name   string             `yaml:"name" bounds:"0,4096" jsonschema_description:"What the test shows."`
	Stream map[string]string  `yaml:"stream" bounds:"0,64,4096" jsonschema_description:"Labels of the stream that the lines come from."`
	Input  []InputSyntax      `yaml:"input" bounds:"0,10000" strict:"required" jsonschema:"required" jsonschema_description:"Lines that arrive and other events, in order of time."`
	Expect []CheckpointSyntax `yaml:"expect" bounds:"0,1000" strict:"required" jsonschema:"required,minItems=1" jsonschema_description:"The alerts that fire at points in time. To test a line that must not match, use firing: none."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// InputSyntax is one event of a test.
type InputSyntax struct {
	Input `yaml:",inline"`
	Keys  strictyaml.Keys `yaml:"-" json:"-"`
}

// CheckpointSyntax states what a test expects at one time.
type CheckpointSyntax struct {
	At       time.Duration   `yaml:"at" bounds:"0s,1y" strict:"required" jsonschema:"required" jsonschema_description:"Time from the start of the test."`
	Firing   FiringSyntax    `yaml:"firing" jsonschema_description:"none, or the complete list of firing alerts. An entry needs only some labels of its alert."`
	Resolved []ExpectedAlert `yaml:"resolved" bounds:"0,1000" jsonschema_description:"Alerts that have resolved. An entry needs only some labels of its alert."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// FiringSyntax is the text `none` or a list of alerts.
type FiringSyntax struct {
	None   bool
	Alerts []ExpectedAlert
}

// OverridesFile is a file that changes rules of packs.
type OverridesFile struct {
	Overrides []OverrideSyntax `yaml:"overrides" bounds:"0,5000" jsonschema:"required,minItems=1" jsonschema_description:"Changes to rules, applied in order after all packs are loaded. An override that matches no rule is an error."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// OverrideSyntax changes the rules that it names.
type OverrideSyntax struct {
	Rule      string        `yaml:"rule" bounds:"0,4096" strict:"required" jsonschema:"required,minLength=1" jsonschema_description:"Name of a rule, a glob such as VCluster*, or pack:NAME for all rules of a pack."`
	Set       *SetSyntax    `yaml:"set" jsonschema_description:"Values to set. match, sequence and clear cannot be set; copy the rule to change them."`
	AddUnless *UnlessSyntax `yaml:"add_unless" jsonschema_description:"Another line that prevents the alert, like the rule's unless."`
	Disable   Reason        `yaml:"disable" bounds:"0,4096" jsonschema:"minLength=1" jsonschema_description:"Disables the rule. The value is the reason, in words."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}

// Reason is the text in which an override explains why it switches a rule off.
type Reason string

// SetSyntax contains the keys that an override may set. Its fields have the same names as the fields of RuleSyntax,
// except for RunbookURL.
type SetSyntax struct {
	From          string        `yaml:"from" bounds:"0,16384" jsonschema_description:"As in a rule."`
	Origin        Origin        `yaml:"origin" bounds:"0,4096" jsonschema:"enum=infrastructure,enum=any" jsonschema_description:"As in a rule."`
	Count         int           `yaml:"count" bounds:"1,10000" jsonschema:"minimum=1,maximum=10000" jsonschema_description:"As in a rule."`
	Within        time.Duration `yaml:"within" bounds:"1ms,1y" jsonschema_description:"As in a rule."`
	Distinct      string        `yaml:"distinct" bounds:"0,4096" jsonschema_description:"As in a rule."`
	For           time.Duration `yaml:"for" bounds:"0s,1y" jsonschema_description:"As in a rule."`
	Silent        time.Duration `yaml:"silent" bounds:"1ms,1y" jsonschema_description:"As in a rule."`
	KeepFiringFor time.Duration `yaml:"keep_firing_for" bounds:"0s,1y" jsonschema_description:"As in a rule."`
	Expire        time.Duration `yaml:"expire" bounds:"0s,1y" jsonschema_description:"As in a rule."`
	Limit         int           `yaml:"limit" bounds:"1,10000" jsonschema:"minimum=1" jsonschema_description:"As in a rule."`
	Scope         Scope         `yaml:"scope" bounds:"0,4096" jsonschema:"enum=node,enum=cluster" jsonschema_description:"As in a rule."`
	Severity      Severity      `yaml:"severity" bounds:"0,4096" jsonschema:"enum=critical,enum=warning,enum=info,enum=none" jsonschema_description:"As in a rule. With none, the alert notifies nobody."`
	Enabled       Mode          `yaml:"enabled" bounds:"0,4096" jsonschema_description:"true, false or silent."`

	By          []string          `yaml:"by" bounds:"0,32,256" jsonschema:"uniqueItems=true" jsonschema_description:"New key of the rule. Open alerts end and begin again with the new labels."`
	Labels      map[string]string `yaml:"labels" bounds:"0,64,16384" jsonschema_description:"Labels to add or replace, by name. An empty text removes a label."`
	Annotations map[string]string `yaml:"annotations" bounds:"0,64,16384" jsonschema_description:"Annotations to add or replace, by name. An empty text removes an annotation."`
	RunbookURL  string            `yaml:"runbook_url" bounds:"0,4096" jsonschema_description:"Replaces runbook_url of the remediation."`
	SymptomOf   []CauseSyntax     `yaml:"symptom_of" bounds:"0,32" jsonschema_description:"Replaces symptom_of. [] removes it."`

	Keys strictyaml.Keys `yaml:"-" json:"-"`
}
