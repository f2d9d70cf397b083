package findings

// Check is one kind of finding.
type Check struct {
	ID      string // stable, such as "unknown-key"
	Level   string // that of its findings: error, warning, notice, or "error or warning"
	Meaning string // what it means and why it matters, in sentences
	Fix     string // what to do about it, in sentences
}

// Topic is a group of checks that belong together.
type Topic struct {
	Title  string
	Checks []Check
}

// Help says for each check what it means and why it matters.
func Help(check string) string {
	for _, t := range topics {
		for _, c := range t.Checks {
			if c.ID == check {
				return c.Meaning
			}
		}
	}
	return "See the message: it says what is wrong, and the fix."
}

// Topics returns every check that crowsnest has, in the order of the reference
// of the language. The caller must not change them.
func Topics() []Topic { return topics }

// topics has an entry for every check that crowsnest has; a test compares it with
// the source.
var topics = []Topic{
	{"What the rules do", []Check{
		{
			TestFailed, "error", "An inline test of the rule does not see the alerts that it expects. The message shows what was expected and what came.",
			"Read the difference: mend the rule if the test is right, the test if the rule is.",
		},
		{
			Unprotected, "error", "A part of the rule can be removed or loosened and all of its tests still pass. Whoever breaks that part later will not notice.",
			"Add a test that fails without the named part: a line that only this part keeps from firing, or a line that only it finds.",
		},
		{
			AlertsDiffer, "notice", "Over the same recorded lines the rule does not raise the same alerts as before the change.",
			"Read the examples. If the change is meant, nothing is to be done.",
		},
		{
			NoLine, "notice", "The rule is new or changed and matched none of the recorded lines: the comparison says nothing about it.",
			"Compare over logs that have such lines, or rely on the tests of the rule.",
		},
		{
			Verdict, "notice", "What the changed rules do otherwise than those before, in a sentence.",
			"Nothing is wrong.",
		},
	}},
	{"Files", []Check{
		{
			"read", "error", "The file or folder cannot be read.",
			"Correct the path, or its permissions.",
		},
		{
			"file", "error", "A file that the configuration names cannot be read.",
			"Correct the path, or its permissions.",
		},
		{
			"http-config", "error", "The settings of an HTTP client cannot be used.",
			"See the message; the settings are those of Prometheus' http_config.",
		},
		{
			"too-large", "error", "The file is larger than a rule pack may be.",
			"Split it into several packs, or load fewer.",
		},
		{
			"no-rules", "error", "The folder, pack or file has no rules: what was meant to be loaded may lie elsewhere.",
			"Name a folder or file with a pack, or remove the empty one.",
		},
		{
			"empty-file", "error", "The file is empty. An empty file is more often a write that failed than a wish.",
			"Write it anew, or remove it.",
		},
		{
			"cut-off", "error", "The file ends in the middle of a line: it was cut off while it was written or copied.",
			"Copy it again. A whole file ends with a line break.",
		},
		{
			"encoding", "error", "The file is not UTF-8.",
			"Save it as UTF-8.",
		},
		{
			"yaml-syntax", "error", "The file is not YAML.",
			"Quote texts that have a colon, `#`, `{` or `[` in them; indent with spaces.",
		},
		{
			"second-document", "error", "The file has several YAML documents; all but the first would be ignored.",
			"Put each document into a file of its own.",
		},
		{
			"file-kind", "error", "The file is of another kind: a pack where overrides belong, or rules of Prometheus.",
			"Start a pack with `pack:` and a file of overrides with `overrides:`; keep rules of Prometheus elsewhere.",
		},
		{
			"too-many-problems", "error", "The file has more problems than are listed.",
			"Mend the ones that are listed, then check again.",
		},
	}},
	{"YAML", []Check{
		{
			"unknown-key", "error", "The key is not part of the language. It would be ignored, and the rule would not mean what it says.",
			"Use the key that the message proposes, or remove it.",
		},
		{
			"missing-key", "error", "A key that is needed is missing.",
			"Add the key.",
		},
		{
			"duplicate-key", "error", "The key is there twice; only one of them could count.",
			"Keep one of them.",
		},
		{
			"wrong-type", "error", "The value has another type than the key needs.",
			"Write it as the message says. A number, `true` or a date that is meant as text needs quotes.",
		},
		{
			"bad-value", "error", "The value is not one that the key can have.",
			"See the message.",
		},
		{
			"no-value", "error", "The key has no value.",
			"Give it a value, or remove the key.",
		},
		{
			"empty-value", "error", "The value is empty.",
			"Write the value, or remove the key.",
		},
		{
			"enum", "error", "The value is not one of those that the key can have.",
			"Use one of the values that the message lists.",
		},
		{
			"bad-duration", "error", "The value is not a duration such as 90s, 10m or 2h.",
			"Write a number and a unit: `30s`, `10m`, `1h30m`.",
		},
		{
			"merge-key", "error", "Merge keys are not allowed: what a rule says must stand in it.",
			"Write the keys out.",
		},
		{
			"anchor", "error", "Anchors and aliases are allowed in tests only: what a rule says must stand in it.",
			"Write the value out.",
		},
		{
			"tag", "error", "YAML tags are not allowed.",
			"Remove the tag; quote the value if it is text.",
		},
		{
			"too-deep", "error", "The file is nested deeper than any rule needs.",
			"Flatten the value.",
		},
		{
			"too-long", "error or warning", "The text is longer than what is kept of it.",
			"Make it shorter; put long texts into annotations.",
		},
	}},
	{"Packs", []Check{
		{
			"too-many-rules", "error", "The pack has more rules than a pack may have.",
			"Load fewer rules.",
		},
		{
			"too-many-lines", "error", "The tests write out more lines than tests may have.",
			"Repeat less, or use fewer tests.",
		},
		{
			"too-many-labels", "error", "The rule has more labels than an alert may have.",
			"Put what does not identify the alert into annotations.",
		},
		{
			"rule-count", "error", "The number of rules or tests is not the one that the pack states: the file was cut off, or the header was not changed with it.",
			"Count again and correct `rules` and `tests` in `pack`; if nobody changed the file, copy it again.",
		},
		{
			"no-rule-count", "error", "A shipped pack states its numbers of rules and tests, so that a file that was cut off is refused.",
			"Add `rules: N, tests: N` to `pack`.",
		},
		{
			"requires", "error", "The pack needs another version of crowsnest.",
			"Update crowsnest, or use a version of the pack for this one.",
		},
		{
			"duplicate-pack", "warning", "Two files have a pack of the same name.",
			"Give one of them another name.",
		},
		{
			"duplicate-alert", "error", "Two rules have the same name: names are unique among all packs.",
			"Give one of them another name, or remove it.",
		},
		{
			"duplicate-name", "error or warning", "The same name is there twice.",
			"Remove one, or give it another name.",
		},
		{
			"shadowed", "warning", "Another rule reads the same streams for the same text: one line would be two alerts.",
			"Remove one of the two rules, or make their lines different.",
		},
	}},
	{"Which lines", []Check{
		{
			"selector", "error", "The selector of streams cannot be read.",
			"Write it like `{namespace=\"capi-system\", container=~\"manager|syncer\"}`.",
		},
		{
			"match-or-sequence", "error", "A rule has either `match` or `sequence`.",
			"Keep one of them.",
		},
		{
			"empty-matcher", "error", "The matcher matches every line.",
			"Write the text that its lines have.",
		},
		{
			"empty-regex", "error", "The regular expression matches every line.",
			"Require at least one text in it.",
		},
		{
			"regex", "error", "The regular expression cannot be used.",
			"Correct it; it is RE2, which has no look-around and no back references.",
		},
		{
			"bad-regex", "error", "The regular expression cannot be used.",
			"Correct it; it is RE2, which has no look-around and no back references.",
		},
		{
			"not-alone", "error", "`not` alone matches nearly every line.",
			"Add `contains`, `regex`, `field` or `any` beside it.",
		},
		{
			"line-break", "warning", "The text has a line break, which a log line hardly ever has.",
			"Write the text on one line, in single quotes.",
		},
		{
			"no-literal", "warning", "The rule requires no fixed text, so it is tried on every line of its streams: that costs CPU.",
			"Add a fixed text of four bytes or more with `contains`.",
		},
		{
			"too-costly", "error", "The regular expressions of the rule could take too long for one line, whoever writes it. The rule is not loaded.",
			"Use smaller repetitions and classes, add a fixed text with `contains`, or make two rules of it.",
		},
		{
			"short-sequence", "warning", "A sequence of one step is a `match`.",
			"Use `match`.",
		},
		{
			"glob", "error", "The pattern of rule names cannot be read.",
			"Use `*` and `?`, or `pack:NAME`.",
		},
	}},
	{"How often, per what, until when", []Check{
		{
			"no-effect", "error or warning", "The key does nothing here, so the rule does not mean what it says.",
			"Remove it, or add the key that gives it an effect.",
		},
		{
			"test-budget", "error", "The inline tests of all packs together would take too long at each load.",
			"Repeat lines less often, or use fewer tests.",
		},
		{
			"internal", "error", "crowsnest failed while it compiled the rule.",
			"Please report it with the rule; leave the rule out until then.",
		},
		{
			"out-of-range", "error", "The value is outside the range that the key allows.",
			"Use a value of the range that the message names.",
		},
		{
			"step-free-text", "error", "A step shows free text of a log line, of which no command can be made.",
			"Show it in an annotation, or capture a name, such as `\\S+`.",
		},
		{
			"step-link", "error", "A value of a log line is the host of a URL in a step.",
			"Write the value without `https://`.",
		},
		{
			"step-shell", "error", "A step is no whole command, such as one with a quote that is not closed.",
			"Close it. Write prose into `summary`.",
		},
		{
			"step-value", "error", "A value of a log line stands where a shell runs it, expands it, or makes it the name of a file.",
			"Pass the value as an argument of its own.",
		},
		{
			"forged-namespace", "warning", "The namespace of the key is captured from the line, and a line can say anything.",
			"Capture it under another name, such as `object_namespace`.",
		},
		{
			"foreign-clear", "warning", "The rule believes every namespace, and a line of one namespace can end the alert of another.",
			"Add `namespace` to `by`, or use `origin: infrastructure`.",
		},
		{
			"foreign-unless", "warning", "The rule believes every namespace, and a line of one namespace can mute the failure of another.",
			"Add `namespace` to `by`, or use `origin: infrastructure`.",
		},
		{
			"blind-rule", "warning", "No configured source has the labels that these rules select by: they see nothing.",
			"Add a source whose streams have these labels, or disable the rules.",
		},
		{
			"no-link", "warning", "Alerts have no link to the page that explains them.",
			"Set `global.external_url`, or start with `--web.external-url`.",
		},
		{
			"never", "error", "With these values the rule can never fire.",
			"Change what the message names: whatever triggers the rule also ends or excludes it.",
		},
		{
			"needs-within", "error", "A count or a sequence needs the time in which its lines must come.",
			"Add `within: 10m`.",
		},
		{
			"needs-count", "error", "The key needs a `count` of at least 2.",
			"Add `count: 3`, or remove the key.",
		},
		{
			"for-expire", "error", "The episode would end before it fires.",
			"Make `for` shorter, or `expire` longer.",
		},
		{
			"below-lateness", "warning", "The time is shorter than lines may be late, so its outcome depends on their order of arrival.",
			"Use at least the time that the message names.",
		},
		{
			"unbounded-key", "error or warning", "`by` has a value that differs on nearly every line: there would be an alert for each.",
			"Group by what fails: a cluster, a namespace, a pod. Capture `\\S+` between fixed texts instead of `.*`.",
		},
		{
			"pod-without-clear", "warning", "`by` has the pod and nothing clears the alert: each new pod is a new alert.",
			"Group by what outlives a pod, or add `clear`.",
		},
		{
			"key-not-captured", "error", "`by`, `same` or `differs` names a value that no line of the rule has.",
			"Capture it in the other lines as well, or say with `same` what they share.",
		},
		{
			"same", "error", "`same` names a value that is not in `by`.",
			"Name values of `by` only.",
		},
		{
			"scope", "error", "`scope` is not what the rule needs.",
			"Remove it: it is computed. The message says why it is not what is stated.",
		},
		{
			"add-unless", "error or warning", "An override adds an `unless` to a rule that has one.",
			"Copy the rule into a pack of your own, and disable this one.",
		},
	}},
	{"What is told", []Check{
		{
			"severity-none", "warning", "An alert of severity none goes nowhere.",
			"Use `enabled: silent` to try a rule out.",
		},
		{
			"label-name", "error", "The name cannot be that of a label.",
			"Use letters, digits and `_`; `alertname`, `severity`, `resolves` and `overflow` are taken.",
		},
		{
			"label-in-by", "error", "The name is both in `labels` and in `by`.",
			"Remove one of them: names in `by` are labels already.",
		},
		{
			"label-template", "error", "A label uses what changes while the alert is the same: each change would be another alert.",
			"Use it in an annotation. Labels may use `$labels` of names in `by`.",
		},
		{
			"annotation-template", "error", "The text uses a label that the alert does not have.",
			"Use `$vars.NAME`, or add the name to `by`.",
		},
		{
			"template", "error", "The template cannot be read.",
			"See the message; functions are listed above.",
		},
		{
			"versions", "error or warning", "The affected versions cannot be compared with what runs.",
			"Quote it: an exact version, or comparators such as `\">=1.9.0 <1.10.0\"`.",
		},
		{
			"runbook-url", "error", "The link to the runbook is not an absolute http or https address.",
			"Write a fixed address with `https://` and its host; put values into `steps`.",
		},
	}},
	{"Overrides", []Check{
		{
			"no-such-rule", "error", "The override names a rule that is not there: it changes nothing.",
			"Correct the name, or remove the override.",
		},
		{
			"no-reason", "error", "A rule that is switched off needs a reason: somebody will ask.",
			"Write why: `disable: \"edge clusters have one replica\"`.",
		},
		{
			"disable-reason", "warning", "A rule that is switched off should say why: use `disable`.",
			"Use `disable` with the reason instead of `set: {enabled: false}`.",
		},
	}},
	{"Tests", []Check{
		{
			"no-positive-test", "error", "A shipped rule has a test that fires.",
			"Add a test whose `expect` lists an alert.",
		},
		{
			"untested-clear", "warning", "No line in the tests of the rule matches `clear`: nothing shows that it ever ends an alert.",
			"Add a test with the line that ends the failure, as it was logged.",
		},
		{
			"untested-unless", "warning", "No line in the tests of the rule matches `unless`: nothing shows that it ever mutes.",
			"Add a test with the muting line, as it was logged.",
		},
		{
			"no-negative-test", "error", "A shipped rule has a test that does not fire.",
			"Add a test with lines and `firing: none`.",
		},
		{
			"untested-shape", "error", "A shipped rule has a test for each shape of its lines.",
			"Add a test with a line of that shape: klog text, JSON, another wording.",
		},
	}},
	{"Configuration", []Check{
		{
			"no-source", "error", "No source of logs is configured.",
			"Add one to `sources`.",
		},
	}},
}
