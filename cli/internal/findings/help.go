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

// Help returns what a check means and why it matters.
func Help(check string) string {
	for _, t := range topics {
		for _, c := range t.Checks {
			if c.ID == check {
				return c.Meaning
			}
		}
	}
	return "See the message: it states the problem and the fix."
}

// Topics returns every check of crowsnest, in the order of the language reference.
// The caller must not change them.
func Topics() []Topic { return topics }

// topics has an entry for every check; a test compares it with the source.
var topics = []Topic{
	{"What the rules do", []Check{
		{
			testFailed, "error", "The rule did not raise the alerts that an inline test expects. The message shows the expected and the actual alerts.",
			"Read the difference, then correct whichever is wrong, the rule or the test.",
		},
		{
			unprotected, "error", "A part of the rule can be removed or loosened and all of its tests still pass. If someone breaks that part later, no test will fail.",
			"Add a test that fails without the named part: a line that only this part prevents from firing, or a line that only this part matches.",
		},
		{
			AlertsDiffer, "notice", "Over the same recorded lines the rule does not raise the same alerts as before the change.",
			"Read the examples. If the change is intended, no action is needed.",
		},
		{
			NoLine, "notice", "The rule is new or changed and matched none of the recorded lines: the comparison proves nothing about it.",
			"Compare over logs that contain such lines, or rely on the tests of the rule.",
		},
		{
			Verdict, "notice", "A summary of how the changed rules behave differently.",
			"No action is needed.",
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
			"not-fetched", "warning", "An artifact has no copy in the folder of the state yet, so its packs are not checked.",
			"Check them with `crowsnest rules verify`; the daemon checks them before it puts them in force.",
		},
		{
			"http-config", "error", "The settings of an HTTP client are invalid.",
			"See the message; the settings are those of Prometheus' http_config.",
		},
		{
			"too-large", "error", "The file is larger than a rule pack may be.",
			"Split it into several packs, or load fewer.",
		},
		{
			"no-rules", "error", "The folder, pack or file has no rules; the intended rules may be elsewhere.",
			"Name a folder or file with a pack, or remove the empty one.",
		},
		{
			"empty-file", "error", "The file is empty, which is more often a failed write than intended.",
			"Write it again, or remove it.",
		},
		{
			"cut-off", "error", "The file ends in the middle of a line: it was truncated while it was written or copied.",
			"Copy it again. A complete file ends with a line break.",
		},
		{
			"encoding", "error", "The file is not UTF-8.",
			"Save it as UTF-8.",
		},
		{
			"yaml-syntax", "error", "The file is not YAML.",
			"Quote texts that contain a colon, `#`, `{` or `[`; indent with spaces.",
		},
		{
			"second-document", "error", "The file has several YAML documents; all but the first would be ignored.",
			"Put each document into its own file.",
		},
		{
			"file-kind", "error", "The file is of a different kind: a pack where overrides belong, or Prometheus rules.",
			"Start a pack with `pack:` and a file of overrides with `overrides:`; keep Prometheus rules elsewhere.",
		},
		{
			"too-many-problems", "error", "The file has more problems than those listed.",
			"Fix the listed ones, then check again.",
		},
	}},
	{"YAML", []Check{
		{
			"unknown-key", "error", "The key is not part of the language. It would be ignored, and the rule would not do what it appears to do.",
			"Use the key that the message proposes, or remove it.",
		},
		{
			"missing-key", "error", "A required key is missing.",
			"Add the key.",
		},
		{
			"duplicate-key", "error", "The key appears twice; only one of them could take effect.",
			"Keep one of them.",
		},
		{
			"wrong-type", "error", "The value has the wrong type.",
			"Write it as the message describes. A number, `true` or a date that is meant as text needs quotes.",
		},
		{
			"bad-value", "error", "The key does not accept this value.",
			"See the message.",
		},
		{
			"no-value", "error", "The key has no value.",
			"Add a value, or remove the key.",
		},
		{
			"empty-value", "error", "The value is empty.",
			"Write the value, or remove the key.",
		},
		{
			"enum", "error", "The value is not one of those that the key accepts.",
			"Use one of the values that the message lists.",
		},
		{
			"bad-duration", "error", "The value is not a duration such as 90s, 10m or 2h.",
			"Write a number and a unit: `30s`, `10m`, `1h30m`.",
		},
		{
			"merge-key", "error", "Merge keys are not allowed: a rule must be readable on its own.",
			"Write the keys out.",
		},
		{
			"anchor", "error", "Anchors and aliases are allowed in tests only: a rule must be readable on its own.",
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
			"too-long", "error or warning", "The text exceeds the length that crowsnest keeps.",
			"Shorten it; put long texts into annotations.",
		},
	}},
	{"Packs", []Check{
		{
			"too-many-rules", "error", "The pack has more rules than allowed.",
			"Load fewer rules.",
		},
		{
			"too-many-lines", "error", "The tests expand to more lines than allowed.",
			"Repeat less, or use fewer tests.",
		},
		{
			"too-many-labels", "error", "The rule has more labels than an alert is allowed.",
			"Put what does not identify the alert into annotations.",
		},
		{
			"rule-count", "error", "The number of rules or tests differs from the one in the header of the pack: the file was truncated, or the header was not updated.",
			"Count again and correct `rules` and `tests` in `pack`; if nobody edited the file, copy it again.",
		},
		{
			"no-rule-count", "error", "A shipped pack must state its numbers of rules and tests, so that a truncated file is refused.",
			"Add `rules: N, tests: N` to `pack`.",
		},
		{
			"requires", "error", "The pack requires another version of crowsnest.",
			"Update crowsnest, or use a version of the pack that supports this one.",
		},
		{
			"duplicate-pack", "warning", "Two files contain a pack with the same name.",
			"Rename one of them.",
		},
		{
			"duplicate-alert", "error", "Two rules have the same name; names must be unique across all packs.",
			"Rename or remove one of them.",
		},
		{
			"duplicate-name", "error or warning", "The same name appears twice.",
			"Remove or rename one of them.",
		},
		{
			"shadowed", "warning", "Another rule matches the same text in the same streams: one line would raise two alerts.",
			"Remove one of the two rules, or make them match different lines.",
		},
	}},
	{"Which lines", []Check{
		{
			"selector", "error", "The stream selector is invalid.",
			"Write it like `{namespace=\"capi-system\", container=~\"manager|syncer\"}`.",
		},
		{
			"match-or-sequence", "error", "A rule needs either `match` or `sequence`.",
			"Keep one of them.",
		},
		{
			"empty-matcher", "error", "The matcher matches every line.",
			"Add the text that the lines contain.",
		},
		{
			"empty-regex", "error", "The regular expression matches every line.",
			"Require at least one text in it.",
		},
		{
			"regex", "error", "The regular expression is invalid.",
			"Correct it; the syntax is RE2, without look-around and back references.",
		},
		{
			"bad-regex", "error", "The regular expression is invalid.",
			"Correct it; the syntax is RE2, without look-around and back references.",
		},
		{
			"not-alone", "error", "`not` alone matches nearly every line.",
			"Add `contains`, `regex`, `field` or `any`.",
		},
		{
			"line-break", "warning", "The text contains a line break, which log lines rarely contain.",
			"Write the text on one line, in single quotes.",
		},
		{
			"no-literal", "warning", "The rule requires no fixed text, so it is evaluated on every line of its streams, which costs CPU.",
			"Add a fixed text of four bytes or more with `contains`.",
		},
		{
			"too-costly", "error", "The regular expressions of the rule could take too long on a single line. The rule is not loaded.",
			"Use smaller repetitions and classes, add a fixed text with `contains`, or split the rule in two.",
		},
		{
			"short-sequence", "warning", "A sequence with one step is a `match`.",
			"Use `match`.",
		},
		{
			"glob", "error", "The pattern of rule names is invalid.",
			"Use `*` and `?`, or `pack:NAME`.",
		},
	}},
	{"How often, per what, until when", []Check{
		{
			"no-effect", "error or warning", "The key has no effect here, so the rule does not do what it appears to do.",
			"Remove it, or add the key that gives it an effect.",
		},
		{
			"test-budget", "error", "The inline tests of all packs together would take too long at each load.",
			"Repeat lines less often, or use fewer tests.",
		},
		{
			"internal", "error", "crowsnest failed to compile the rule.",
			"Please report it with the rule; remove the rule until it is fixed.",
		},
		{
			"out-of-range", "error", "The value is outside the allowed range.",
			"Use a value in the range that the message states.",
		},
		{
			"step-free-text", "error", "A step contains free text of a log line, which must not be part of a command.",
			"Show it in an annotation, or capture a name, such as `\\S+`.",
		},
		{
			"step-link", "error", "A value from a log line is the host of a URL in a step.",
			"Write the value without `https://`.",
		},
		{
			"step-shell", "error", "A step is not a complete command, for example because of an unclosed quote.",
			"Complete it. Put prose into `summary`.",
		},
		{
			"step-value", "error", "A value from a log line is in a place where a shell executes or expands it, or uses it as a file name.",
			"Pass the value as a separate argument.",
		},
		{
			"forged-namespace", "warning", "The namespace of the key is captured from the line, and a line can contain anything.",
			"Capture it under another name, such as `object_namespace`.",
		},
		{
			"foreign-clear", "warning", "The rule trusts every namespace, so a line of one namespace can end the alert of another.",
			"Add `namespace` to `by`, or use `origin: infrastructure`.",
		},
		{
			"foreign-unless", "warning", "The rule trusts every namespace, so a line of one namespace can mute the failure of another.",
			"Add `namespace` to `by`, or use `origin: infrastructure`.",
		},
		{
			"blind-rule", "warning", "No configured source has the labels that these rules select by: they never match.",
			"Add a source whose streams have these labels, or disable the rules.",
		},
		{
			"no-link", "warning", "Alerts have no link to the page that explains them.",
			"Set `global.external_url`, or start with `--web.external-url`.",
		},
		{
			"never", "error", "With these values the rule can never fire.",
			"Change the part that the message names: what triggers the rule also ends or excludes it.",
		},
		{
			"needs-within", "error", "A count or a sequence needs the time span in which its lines must occur.",
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
			"below-lateness", "warning", "The time is shorter than the possible delay of lines, so the result depends on their order of arrival.",
			"Use at least the time that the message states.",
		},
		{
			"unbounded-key", "error or warning", "`by` contains a value that differs on nearly every line: each line would raise an alert.",
			"Group by the thing that fails: a cluster, a namespace, a pod. Capture `\\S+` between fixed texts instead of `.*`.",
		},
		{
			"pod-without-clear", "warning", "`by` contains the pod and nothing clears the alert: each new pod raises a new alert.",
			"Group by something that outlives a pod, or add `clear`.",
		},
		{
			"key-not-captured", "error", "`by`, `same` or `differs` names a value that the lines of the rule do not contain.",
			"Capture it in the other lines as well, or state with `same` what they share.",
		},
		{
			"same", "error", "`same` names a value that is not in `by`.",
			"Name values of `by` only.",
		},
		{
			"scope", "error", "`scope` does not match the rule.",
			"Remove it: it is computed. The message explains the difference.",
		},
		{
			"add-unless", "error or warning", "An override adds an `unless` to a rule that already has one.",
			"Copy the rule into your own pack, and disable this one.",
		},
	}},
	{"Notifications", []Check{
		{
			"severity-none", "warning", "An alert with severity none is not routed anywhere.",
			"Use `enabled: silent` to try out a rule.",
		},
		{
			"label-name", "error", "The name is not a valid label name.",
			"Use letters, digits and `_`; `alertname`, `severity`, `resolves` and `overflow` are reserved.",
		},
		{
			"label-in-by", "error", "The name is both in `labels` and in `by`.",
			"Remove one of them: names in `by` are labels already.",
		},
		{
			"label-template", "error", "A label uses a value that changes during an alert: each change would be a new alert.",
			"Use it in an annotation. Labels may use `$labels` of names in `by`.",
		},
		{
			"annotation-template", "error", "The text uses a label that the alert does not have.",
			"Use `$vars.NAME`, or add the name to `by`.",
		},
		{
			"template", "error", "The template is invalid.",
			"See the message; functions are listed above.",
		},
		{
			"versions", "error or warning", "The affected versions cannot be compared with the running version.",
			"Quote them: an exact version, or comparators such as `\">=1.9.0 <1.10.0\"`.",
		},
		{
			"runbook-url", "error", "The link to the runbook is not an absolute http or https address.",
			"Write a fixed address with `https://` and its host; put values into `steps`.",
		},
	}},
	{"Overrides", []Check{
		{
			"no-such-rule", "error", "The override names a rule that does not exist: it changes nothing. It is a warning while an artifact is not fetched, which may have the rule.",
			"Correct the name, or remove the override.",
		},
		{
			"no-reason", "error", "A disabled rule needs a reason: somebody will ask.",
			"State it: `disable: \"edge clusters have one replica\"`.",
		},
		{
			"disable-reason", "warning", "A disabled rule should state a reason: use `disable`.",
			"Use `disable` with the reason instead of `set: {enabled: false}`.",
		},
	}},
	{"Tests", []Check{
		{
			"no-positive-test", "error", "A shipped rule needs a test that fires.",
			"Add a test whose `expect` lists an alert.",
		},
		{
			"untested-clear", "warning", "No line in the tests of the rule matches `clear`: nothing proves that it ever ends an alert.",
			"Add a test with the line that ends the failure, as it was logged.",
		},
		{
			"untested-unless", "warning", "No line in the tests of the rule matches `unless`: nothing proves that it ever mutes.",
			"Add a test with the muting line, as it was logged.",
		},
		{
			"no-negative-test", "error", "A shipped rule needs a test that does not fire.",
			"Add a test with lines and `firing: none`.",
		},
		{
			"untested-shape", "error", "A shipped rule needs a test for each format of its lines.",
			"Add a test with a line of that format: klog text, JSON, another wording.",
		},
	}},
	{"Configuration", []Check{
		{
			"no-source", "error", "No log source is configured.",
			"Add one to `sources`.",
		},
	}},
}
