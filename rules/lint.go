package rules

import (
	"fmt"
	"slices"
)

// linter checks a compiled rule. It changes only the field maxLine of the rule.
type linter struct{ *compiler }

// lint looks for keys of the rule that have no effect, or another effect than they suggest.
func (l *linter) lint() {
	if l.Keys.Has("silent") {
		l.lintSilent()
	} else {
		l.lintWindow()
		l.lintDurations()
		l.lintDistinct()
	}
	l.lintLimit()
	l.lintScope()
	l.lintBy()
	l.lintCaptures()
	l.lintDiffers()
	l.lintOrigin()
	l.lintVoices()
	l.lintNever()
	l.lintSteps()
	l.lintCost()
	l.lintNames()
}

func (l *linter) lintWindow() {
	sequence := l.Keys.Has("sequence")
	counted := l.Keys.IsDecoded("count")
	switch {
	case counted && sequence:
		l.addError(l.Keys.Key("count"), "no-effect", "`count` has no effect on a sequence", "remove it")
	case counted && l.Count > 1 && l.Keys.Lacks("within"):
		l.reportMissing("count", "needs-within", fmt.Sprintf("`count: %d` needs `within`", l.Count), "add the window of the count: within: 10m")
	}
	if l.Keys.IsDecoded("within") {
		l.checkLateness(l.Within, l.Keys.Value("within"), "`within`")
	}
	switch {
	case sequence && l.Keys.Lacks("within"):
		l.reportMissing("sequence", "needs-within", "`sequence` needs `within`", "add the longest time from its first line to its last: within: 10m")
	case l.Keys.IsDecoded("within") && !sequence && l.Keys.Has("match") && l.rule.Count == 1 && !l.Keys.Has("distinct") && !l.Keys.HasError("count") && !l.isLikely("count") && !l.isLoosened():
		l.addError(l.Keys.Key("within"), "no-effect", "`within` has no effect without `count` or `sequence`", "remove it, or add `count`")
	}
}

// isLoosened reports whether an override changed the rule's count but not its window.
func (l *linter) isLoosened() bool {
	return l.Keys.Key("count").File() != l.file && l.Keys.Key("within").File() == l.file
}

func (l *linter) lintDurations() {
	cleared := l.Keys.Has("clear")
	if l.Keys.IsDecoded("for") && l.For > 0 {
		l.checkLateness(l.For, l.Keys.Value("for"), "`for`")
	}
	if cleared && l.Keys.Has("keep_firing_for") {
		l.addError(l.Keys.Key("keep_firing_for"), "no-effect", "`keep_firing_for` has no effect with `clear`: the clear line ends the episode", "remove it, or use `expire` for an upper bound")
	} else if l.Keys.IsDecoded("keep_firing_for") {
		l.checkLateness(l.KeepFiringFor, l.Keys.Value("keep_firing_for"), "`keep_firing_for`")
	}
	if l.Keys.Has("expire") && !cleared && !l.isLikely("clear") && !l.isLikely("silent") {
		l.addError(l.Keys.Key("expire"), "no-effect", "`expire` has no effect without `clear` or `silent`", "use `keep_firing_for` for the quiet time after which the alert resolves, or add `clear`")
	}
	if cleared && !l.Keys.HasError("for") && !l.Keys.HasError("expire") && l.rule.For >= l.rule.Expire {
		at := l.Keys.Value("for")
		if !l.Keys.Has("for") || l.Keys.Value("expire").File() != l.file {
			at = l.Keys.Value("expire")
		}
		l.addError(at, "for-expire", fmt.Sprintf("`for` (%s) is not shorter than `expire` (%s): the episode ends before it fires", duration(l.rule.For), duration(l.rule.Expire)), "make `for` shorter, or `expire` longer")
	}
}

func (l *linter) lintDistinct() {
	if !l.Keys.IsDecoded("distinct") {
		return
	}
	at := l.Keys.Key("distinct")
	switch {
	case l.Keys.Has("sequence"):
		l.addError(at, "no-effect", "`distinct` has no effect on a sequence", "remove it")
	case l.Distinct == "":
		l.addError(l.Keys.Value("distinct"), "empty-value", "`distinct` is empty", "write the name of the values to count")
	case l.rule.DistinctTime() > 0:
		l.lintDistinctTime()
	case slices.Contains(l.By, l.Distinct):
		l.addError(l.Keys.Value("distinct"), "never", fmt.Sprintf("`distinct: %s` is also in `by`: all lines of a key have the same %s, so the rule never fires", l.Distinct, l.Distinct), "remove it from one of them")
	}
	switch {
	case l.Keys.Has("sequence"):
	case l.Keys.Lacks("count"):
		l.reportMissing("distinct", "needs-count", "`distinct` needs `count` of at least 2", "add the number of different values: count: 3")
	case l.Keys.IsDecoded("count") && l.Count == 1:
		l.addError(l.Keys.Value("count"), "needs-count", "`distinct` needs `count` of at least 2", "add the number of different values: count: 3")
	case l.Keys.IsDecoded("count") && l.Count > MaxHits:
		l.addError(l.Keys.Value("count"), "too-many", fmt.Sprintf("`count` is %d; with `distinct`, at most %d are allowed", l.Count, MaxHits), fmt.Sprintf("use at most %d, or count lines without `distinct`", MaxHits))
	}
}

// lintDistinctTime checks that the window contains as many units of time as `count` requires.
func (l *linter) lintDistinctTime() {
	unit, name := l.rule.DistinctTime(), l.Distinct
	if !l.Keys.IsDecoded("within") || !l.Keys.IsDecoded("count") {
		return
	}
	if most := int((l.Within+unit-2)/unit) + 1; l.Count > most {
		l.addError(l.Keys.Value("count"), "never", fmt.Sprintf("a window of %s has times in at most %d different %ss: the rule never fires", duration(l.Within), most, name), "make `within` longer, or `count` smaller")
	}
}

func (l *linter) lintLimit() {
	if l.Keys.IsDecoded("limit") && len(l.By) == 0 && !l.Keys.HasError("by") && l.Keys.Lacks("by") {
		l.addWarning(l.Keys.Key("limit"), "no-effect", "`limit` has no effect without `by`: there is only one key", "remove it")
	}
}

func (l *linter) lintScope() {
	if !l.Keys.IsDecoded("scope") || l.Keys.HasError("by") || l.Keys.HasError("clear") || l.Keys.HasError("unless") || l.RuleSyntax.Scope == l.rule.Scope {
		return
	}
	message, fix := "the rule can be decided on a single node: its key has `pod`", "remove `scope`, or write scope: node"
	if l.rule.Scope == ScopeCluster {
		message = "the rule cannot be decided on a single node: " + whyCluster(l.rule)
		fix = "remove `scope`, or write scope: cluster"
	}
	l.addError(l.Keys.Value("scope"), "scope", message, fix)
}

// computeScope returns ScopeNode if all lines of a key come from the same node, otherwise ScopeCluster.
func computeScope(r *Rule) Scope {
	if whyCluster(r) == "" {
		return ScopeNode
	}
	return ScopeCluster
}

// whyCluster returns the reason why a single node cannot decide the rule, or "" if it can.
func whyCluster(r *Rule) string {
	switch {
	case !slices.Contains(r.By, "pod"):
		return "`by` has no `pod`"
	case r.Clear != nil && !slices.Contains(r.Clear.Same, "pod"):
		return "`clear.same` has no `pod`, so another node's line may clear it"
	case r.Unless != nil && !slices.Contains(r.Unless.Same, "pod"):
		return "`unless.same` has no `pod`, so another node's line may mute it"
	}
	for _, p := range ruleParts(r) {
		if slices.Contains(possibleCaptures(*p.matcher), "pod") {
			return "`pod` is captured from the line, so it may not be the pod that logs it"
		}
	}
	froms := slices.Collect(r.Selectors())
	if i := slices.IndexFunc(froms, func(s Selector) bool { return !s.OfContainers() }); i >= 0 && len(froms) > 1 {
		return fmt.Sprintf("its parts read different streams, and %s does not require a container or a pod, so it may select streams that are not of a pod", froms[i])
	}
	return ""
}

// besideSilent lists the keys that are not allowed together with `silent`.
var besideSilent = []struct{ key, reason, fix string }{
	{"sequence", "each line of `match` shows by itself that the key is alive", "use `match` with the line that must keep coming"},
	{"count", "each line shows by itself that the key is alive", "remove it"},
	{"within", "`silent` itself is the time without a line", "remove it"},
	{"distinct", "each line shows by itself that the key is alive", "remove it, or add its name to `by` to expect lines of each value"},
	{"for", "the alert fires when the key was silent for the time of `silent`", "remove it, or make `silent` longer"},
	{"clear", "the next line of `match` ends the failure", "remove it; a line that also shows that the key is alive belongs to `match`, with `any`"},
	{"keep_firing_for", "the next line of `match` ends the failure", "remove it, or use `expire` for an upper bound"},
}

// lintSilent checks the keys of a rule with `silent`, which fires when lines stop.
func (l *linter) lintSilent() {
	if l.Keys.IsDecoded("silent") {
		l.checkLateness(l.Silent, l.Keys.Value("silent"), "`silent`")
	}
	for _, x := range besideSilent {
		if !l.Keys.Has(x.key) {
			continue
		}
		at, fix := l.Keys.Key(x.key), x.fix
		if silent := l.Keys.Key("silent"); silent.File() != l.file && at.File() == l.file {
			at, fix = silent, "remove `silent` from the override, or copy the rule"
		}
		l.addError(at, "no-effect", fmt.Sprintf("`%s` has no effect with `silent`: %s", x.key, x.reason), fix)
	}
	if !l.Keys.IsDecoded("expire") {
		return
	}
	switch {
	case l.Expire == 0:
		l.addError(l.Keys.Value("expire"), "never", "`expire` is 0: the alert ends at the moment at which it starts", "make `expire` longer")
	case l.Expire < l.Silent:
		l.addWarning(l.Keys.Value("expire"), "silent-expire", fmt.Sprintf("the alert ends after %s, while the line is still missing: `expire` is shorter than `silent` (%s)", duration(l.Expire), duration(l.Silent)),
			"remove `expire`, so that the alert fires until the line returns, at most "+duration(DefaultSilentExpire))
	}
}
