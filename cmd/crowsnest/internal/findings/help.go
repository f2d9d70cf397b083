package findings

// Help says for each check what it means and why it matters.
func Help(check string) string {
	if text, ok := helps[check]; ok {
		return text
	}
	return "See the message: it says what is wrong, and the fix."
}

// helps has an entry for every check that crowsnest has; a test compares it with
// the source.
var helps = map[string]string{
	// What the rules do.
	TestFailed:   "An inline test of the rule does not see the alerts that it expects. The message shows what was expected and what came.",
	Unprotected:  "A part of the rule can be removed or loosened and all of its tests still pass. Whoever breaks that part later will not notice.",
	AlertsDiffer: "Over the same recorded lines the rule does not raise the same alerts as before the change.",
	NoLine:       "The rule is new or changed and matched none of the recorded lines: the comparison says nothing about it.",
	Verdict:      "What the changed rules do otherwise than those before, in a sentence.",
	// Files.
	"read":              "The file or folder cannot be read.",
	"file":              "A file that the configuration names cannot be read.",
	"http-config":       "The settings of an HTTP client cannot be used.",
	"too-large":         "The file is larger than a rule pack may be.",
	"no-rules":          "The folder, pack or file has no rules: what was meant to be loaded may lie elsewhere.",
	"empty-file":        "The file is empty. An empty file is more often a write that failed than a wish.",
	"cut-off":           "The file ends in the middle of a line: it was cut off while it was written or copied.",
	"encoding":          "The file is not UTF-8.",
	"yaml-syntax":       "The file is not YAML.",
	"second-document":   "The file has several YAML documents; all but the first would be ignored.",
	"file-kind":         "The file is of another kind: a pack where overrides belong, or rules of Prometheus.",
	"too-many-problems": "The file has more problems than are listed.",
	// YAML.
	"unknown-key":   "The key is not part of the language. It would be ignored, and the rule would not mean what it says.",
	"missing-key":   "A key that is needed is missing.",
	"duplicate-key": "The key is there twice; only one of them could count.",
	"wrong-type":    "The value has another type than the key needs.",
	"bad-value":     "The value is not one that the key can have.",
	"no-value":      "The key has no value.",
	"empty-value":   "The value is empty.",
	"enum":          "The value is not one of those that the key can have.",
	"bad-duration":  "The value is not a duration such as 90s, 10m or 2h.",
	"zero":          "The value is 0, with which the key does nothing.",
	"merge-key":     "Merge keys are not allowed: what a rule says must stand in it.",
	"anchor":        "Anchors and aliases are allowed in tests only: what a rule says must stand in it.",
	"tag":           "YAML tags are not allowed.",
	"too-deep":      "The file is nested deeper than any rule needs.",
	"too-long":      "The text is longer than what is kept of it.",
	"too-many":      "There are more than are kept or make sense.",
	// Packs.
	"too-many-rules":  "The pack has more rules than a pack may have.",
	"too-many-lines":  "The tests write out more lines than tests may have.",
	"too-many-labels": "The rule has more labels than an alert may have.",
	"rule-count":      "The number of rules or tests is not the one that the pack states: the file was cut off, or the header was not changed with it.",
	"no-rule-count":   "A shipped pack states its numbers of rules and tests, so that a file that was cut off is refused.",
	"requires":        "The pack needs another version of crowsnest.",
	"duplicate-pack":  "Two files have a pack of the same name.",
	"duplicate-alert": "Two rules have the same name: names are unique among all packs.",
	"duplicate-name":  "The same name is there twice.",
	"shadowed":        "Another rule takes the place of this one.",
	// Which lines.
	"selector":          "The selector of streams cannot be read.",
	"match-or-sequence": "A rule has either `match` or `sequence`.",
	"empty-matcher":     "The matcher matches every line.",
	"empty-regex":       "The regular expression matches every line.",
	"regex":             "The regular expression cannot be used.",
	"bad-regex":         "The regular expression cannot be used.",
	"not-alone":         "`not` alone matches nearly every line.",
	"line-break":        "The text has a line break, which a log line hardly ever has.",
	"no-literal":        "The rule requires no fixed text, so it is tried on every line of its streams: that costs CPU.",
	"too-costly":        "The regular expressions of the rule could take too long for one line, whoever writes it. The rule is not loaded.",
	"short-sequence":    "A sequence of one step is a `match`.",
	"glob":              "The pattern of rule names cannot be read.",
	// How often, per what, until when.
	"no-effect":         "The key does nothing here, so the rule does not mean what it says.",
	"never":             "With these values the rule can never fire.",
	"needs-within":      "A count or a sequence needs the time in which its lines must come.",
	"needs-count":       "The key needs a `count` of at least 2.",
	"for-expire":        "The episode would end before it fires.",
	"below-lateness":    "The time is shorter than lines may be late, so its outcome depends on their order of arrival.",
	"unbounded-key":     "`by` has a value that differs on nearly every line: there would be an alert for each.",
	"pod-without-clear": "`by` has the pod and nothing clears the alert: each new pod is a new alert.",
	"key-not-captured":  "`by`, `same` or `differs` names a value that no line of the rule has.",
	"same":              "`same` names a value that is not in `by`.",
	"scope":             "`scope` is not what the rule needs.",
	"add-unless":        "An override adds an `unless` to a rule that has one.",
	// What is told.
	"severity-none":       "An alert of severity none goes nowhere.",
	"label-name":          "The name cannot be that of a label.",
	"label-in-by":         "The name is both in `labels` and in `by`.",
	"label-template":      "A label uses what changes while the alert is the same: each change would be another alert.",
	"annotation-template": "The text uses a label that the alert does not have.",
	"template":            "The template cannot be read.",
	"versions":            "The affected versions cannot be compared with what runs.",
	"runbook-url":         "The link to the runbook is not an absolute http or https address.",
	// Overrides.
	"no-such-rule":   "The override names a rule that is not there: it changes nothing.",
	"no-reason":      "A rule that is switched off needs a reason: somebody will ask.",
	"disable-reason": "A rule that is switched off should say why: use `disable`.",
	// Tests.
	"no-positive-test": "A shipped rule has a test that fires.",
	"no-negative-test": "A shipped rule has a test that does not fire.",
	"untested-shape":   "A shipped rule has a test for each shape of its lines.",
	// Configuration.
	"no-source": "No source of logs is configured.",
}
