package rules

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/internal/expr"
)

func (l *linter) lintBy() {
	if l.Keys.HasError("by") {
		return
	}
	l.checkNames(l.By, &l.Keys, "by")
	for i, name := range l.By {
		at := l.Keys.Item("by", i)
		if name == "" {
			continue
		}
		if message, fix := badLabel(name); message != "" {
			l.addError(at, "label-name", message, fix)
			continue
		}
		if what := whyUnbounded(name); what != "" {
			l.addError(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, %s: nearly every line would raise an alert of its own", name, what), "group by what fails: a cluster, a namespace, a pod")
			continue
		}
		w := expr.Narrow
		for _, p := range ruleParts(l.rule) {
			w = max(w, captureWidth(*p.matcher, name))
		}
		switch w {
		case expr.Unlimited:
			l.addError(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, which .* captures: nearly every line would raise an alert of its own", name), "capture less, such as \\S+ between fixed texts")
		case expr.Wide:
			l.addWarning(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, whose group contains .* or .+ and may capture far into the line", name), "capture less, such as \\S+ or [^\"]+")
		}
		if name == "pod" && !l.rule.Expires() && !l.isLikely("clear") && !l.isLikely("silent") {
			l.addWarning(at, "pod-without-clear", "`by` has `pod` and the rule has no `clear`: every new pod raises a new alert", "group by something that outlives a pod, or add `clear`")
		}
	}
}

// whyUnbounded returns the reason why a name has an unlimited number of values, or "" if there is none.
func whyUnbounded(name string) string {
	name = strings.ToLower(wordStart.ReplaceAllString(name, "${1}_${2}"))
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	joined := strings.ReplaceAll(name, "_", "")
	for _, id := range []string{"reconcileid", "traceid", "spanid", "requestid", "correlationid"} {
		if strings.HasSuffix(joined, id) {
			return "an id of a single run"
		}
	}
	name = strings.TrimRight(name, "_")
	switch name[strings.LastIndexByte(name, '_')+1:] {
	case "uid", "uuid", "guid", "uids":
		return "an id of a single object"
	case "hash", "sha", "sha1", "sha256", "sha512", "md5", "digest", "checksum":
		return "a hash"
	case "timestamp", "ts", "time", "datetime", "date":
		return "a time"
	}
	return ""
}

// wordStart matches the start of a word inside a name such as reconcileID.
var wordStart = lazyre.New(`(\p{Ll})(\p{Lu})`)

// lintCaptures checks the names of the key that a matcher captures. All matchers on the same streams must capture such
// a name, because otherwise their lines would have different keys. In the lines of other streams, the name may be a
// label or a field.
func (l *linter) lintCaptures() {
	if l.Keys.HasError("by") {
		return
	}
	for i, name := range l.By {
		var checked []Selector
		for s, step := range l.rule.Steps {
			if !slices.ContainsFunc(checked, step.From.Equal) && slices.Contains(l.rule.StepCaptures(s), name) {
				checked = append(checked, step.From)
				l.checkCaptured(name, s, l.Keys.Item("by", i))
			}
		}
	}
}

func (l *linter) checkCaptured(name string, first int, pos strictyaml.Pos) {
	where, from := "`match`", l.rule.Steps[first].From
	if l.rule.Sequence {
		where = fmt.Sprintf("step %d", first+1)
	}
	report := func(keys *strictyaml.Keys, place strictyaml.Pos, part, fix string) {
		if !keys.HasAnyError() {
			l.addError(place, "key-not-captured", fmt.Sprintf("`by` has `%s` (%s), which %s captures and %s does not, so their lines never have the same key", name, pos, where, part), fix)
		}
	}
	group := fmt.Sprintf("capture it there as well: (?P<%s>...)", name)
	for s := range l.rule.Steps {
		if s >= len(l.Sequence) || !l.rule.Steps[s].From.Equal(from) || slices.Contains(l.rule.StepCaptures(s), name) {
			continue
		}
		report(&l.Sequence[s].Keys, l.Sequence[s].Keys.Pos, fmt.Sprintf("step %d", s+1), group)
	}
	if k := l.Clear; k != nil && l.rule.Clear.From.Equal(from) && !k.Keys.Has("same") && !slices.Contains(possibleCaptures(l.rule.Clear.Matcher), name) {
		report(&k.Keys, l.Keys.Key("clear"), "`clear`", group+", or list the shared names in `same`")
	}
	if u := l.rule.Unless; u == nil || !u.From.Equal(from) {
		return
	}
	for _, w := range l.written { // each matcher must capture the name by itself
		at := w.keys.Pos
		switch w.name {
		case nameUnless:
			at = l.Keys.Key("unless")
		case nameAddUnless:
		default:
			continue
		}
		if !w.keys.Has("same") && !slices.Contains(possibleCaptures(w.compiled), name) {
			report(w.keys, at, nameUnless, group+", or list the shared names in `same`")
		}
	}
}

func (l *linter) lintDiffers() {
	for i := range l.Sequence {
		s := &l.Sequence[i]
		if !s.Keys.IsDecoded("differs") {
			continue
		}
		l.checkNames(s.Differs, &s.Keys, "differs")
		if i == 0 || len(s.Differs) == 0 {
			message := "`differs` has no effect on the first step: there is no step before it"
			if i > 0 {
				message = "`differs` is empty"
			}
			l.addError(s.Keys.Key("differs"), "no-effect", message, "remove it")
			continue
		}
		for j, name := range s.Differs {
			if slices.Contains(l.By, name) {
				l.addError(s.Keys.Item("differs", j), "never", fmt.Sprintf("`differs` has `%s`, which is in `by`: all lines of a key have the same value, so the rule never fires", name), "remove it from one of them")
			}
		}
	}
}
