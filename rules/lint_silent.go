package rules

import "fmt"

// besideSilent lists the keys that are not allowed beside `silent`, each with the reason and
// the fix.
var besideSilent = []struct{ key, reason, fix string }{
	{"sequence", "each line of `match` shows by itself that the key is alive", "use `match` with the line that must keep coming"},
	{"count", "each line shows by itself that the key is alive", "remove it"},
	{"within", "`silent` itself is the time without a line", "remove it"},
	{"distinct", "each line shows by itself that the key is alive", "remove it, or add its name to `by` to expect lines of each value"},
	{"for", "the alert fires when the key was silent for the time of `silent`", "remove it, or make `silent` longer"},
	{"clear", "the next line of `match` ends the failure", "remove it; a line that also shows that the key is alive belongs to `match`, with `any`"},
	{"keep_firing_for", "the next line of `match` ends the failure", "remove it, or use `expire` for an upper bound"},
}

// lintSilent checks the keys of a rule with `silent`, which detects that lines stop.
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
