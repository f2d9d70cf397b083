package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"crowsnest/rules/internal/expr"
	"crowsnest/strictyaml"
)

// lintBy checks the names of the key.
func (c *compiler) lintBy() {
	if c.Keys.Broken("by") {
		return
	}
	c.checkNames(c.By, &c.Keys, "by")
	for i, name := range c.By {
		at := c.Keys.Item("by", i)
		if name == "" {
			continue
		}
		if message, fix := badLabel(name); message != "" {
			c.errorAt(at, "label-name", message, fix)
			continue
		}
		if what := unbounded(name); what != "" {
			c.errorAt(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, %s: nearly every line would raise an alert of its own", name, what), "group by what fails: a cluster, a namespace, a pod")
			continue
		}
		w := expr.Narrow
		for _, m := range matchersOf(c.rule) {
			w = max(w, captureWidth(m, name))
		}
		switch w {
		case expr.Unlimited:
			c.errorAt(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, which .* captures: nearly every line would raise an alert of its own", name), "capture less, such as \\S+ between fixed texts")
		case expr.Wide:
			c.warnAt(at, "unbounded-key", fmt.Sprintf("`by` has `%s`, whose group contains .* or .+ and may capture far into the line", name), "capture less, such as \\S+ or [^\"]+")
		}
		if name == "pod" && !c.Keys.Has("clear") && !c.likely("clear") {
			c.warnAt(at, "pod-without-clear", "`by` has `pod` and the rule has no `clear`: every new pod raises a new alert", "group by something that outlives a pod, or add `clear`")
		}
	}
}

// unbounded returns why a name has an unlimited number of values, "" if it seems
// to have few.
func unbounded(name string) string {
	words := splitWords(name)
	last := words[len(words)-1]
	joined := strings.Join(words, "")
	for _, id := range []string{"reconcileid", "traceid", "spanid", "requestid", "correlationid"} {
		if strings.HasSuffix(joined, id) {
			return "an id of a single run"
		}
	}
	switch last {
	case "uid", "uuid", "guid", "uids":
		return "an id of a single object"
	case "hash", "sha", "sha1", "sha256", "sha512", "md5", "digest", "checksum":
		return "a hash"
	case "timestamp", "ts", "time", "datetime", "date":
		return "a time"
	}
	return ""
}

// splitWords splits reconcileID, trace_id and pod-template-hash into lower-case
// words.
func splitWords(name string) []string {
	var words []string
	word := ""
	prev := rune(0)
	for _, r := range name {
		starts := unicode.IsUpper(r) && unicode.IsLower(prev)
		if r == '_' || r == '-' || r == '.' || starts {
			if word != "" {
				words = append(words, word)
			}
			word = ""
		}
		if r != '_' && r != '-' && r != '.' {
			word += string(unicode.ToLower(r))
		}
		prev = r
	}
	if word != "" || len(words) == 0 {
		words = append(words, word)
	}
	return words
}

// lintCaptures checks that a name of the key that one matcher captures is captured
// by all, because their lines would otherwise have different keys.
func (c *compiler) lintCaptures() {
	if c.Keys.Broken("by") {
		return
	}
	for i, name := range c.By {
		first := -1
		for s := range c.rule.Steps {
			if first < 0 && slices.Contains(stepCaptures(c.rule, s), name) {
				first = s
			}
		}
		if first >= 0 {
			c.checkCaptured(name, first, c.Keys.Item("by", i))
		}
	}
}

func (c *compiler) checkCaptured(name string, first int, by strictyaml.Pos) {
	where := "`match`"
	if c.rule.Sequence {
		where = fmt.Sprintf("step %d", first+1)
	}
	report := func(keys *strictyaml.Keys, at strictyaml.Pos, part, fix string) {
		if !keys.Damaged() {
			c.errorAt(at, "key-not-captured", fmt.Sprintf("`by` has `%s` (%s), which %s captures and %s does not: they never share a key", name, by, where, part), fix)
		}
	}
	group := fmt.Sprintf("capture it there as well: (?P<%s>...)", name)
	for s := range c.rule.Steps {
		if s >= len(c.Sequence) || slices.Contains(stepCaptures(c.rule, s), name) {
			continue
		}
		report(&c.Sequence[s].Keys, c.Sequence[s].Keys.At, fmt.Sprintf("step %d", s+1), group)
	}
	if k := c.Clear; k != nil && !k.Keys.Has("same") && !slices.Contains(possibleCaptures(c.rule.Clear.Matcher), name) {
		report(&k.Keys, c.Keys.Key("clear"), "`clear`", group+", or list the shared names in `same`")
	}
	if c.Unless != nil && !c.Unless.Keys.Has("same") {
		c.checkUnlessCaptures(c.Unless, c.Keys.Key("unless"), name, report)
	}
	for _, u := range c.added {
		if !u.Keys.Has("same") {
			c.checkUnlessCaptures(u, u.Keys.At, name, report)
		}
	}
}

func (c *compiler) checkUnlessCaptures(u *UnlessSyntax, at strictyaml.Pos, name string, report func(*strictyaml.Keys, strictyaml.Pos, string, string)) {
	// Overrides are merged into one matcher, but each must capture by itself, so
	// compile it again and ignore its problems, which have been reported.
	quiet := &compiler{form: c.form, rule: &Rule{}}
	m := quiet.matcher(&u.Parts, &u.Keys, "")
	if !slices.Contains(possibleCaptures(m), name) {
		report(&u.Keys, at, "`unless`", fmt.Sprintf("capture it there as well: (?P<%s>...), or list the shared names in `same`", name))
	}
}

// lintDiffers checks the `differs` of steps.
func (c *compiler) lintDiffers() {
	for i := range c.Sequence {
		s := &c.Sequence[i]
		if !s.Keys.Has("differs") || s.Keys.Broken("differs") {
			continue
		}
		c.checkNames(s.Differs, &s.Keys, "differs")
		if i == 0 || len(s.Differs) == 0 {
			message := "`differs` has no effect on the first step: there is no step before it"
			if i > 0 {
				message = "`differs` is empty"
			}
			c.errorAt(s.Keys.Key("differs"), "no-effect", message, "remove it")
			continue
		}
		for j, name := range s.Differs {
			if slices.Contains(c.By, name) {
				c.errorAt(s.Keys.Item("differs", j), "never", fmt.Sprintf("`differs` has `%s`, which is in `by`: all lines of a key have the same value, so the rule never fires", name), "remove it from one of them")
			}
		}
	}
}
