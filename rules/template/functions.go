package template

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"unicode"

	"github.com/prometheus/common/helpers/templates"

	"crowsnest/internal/text"
	"crowsnest/rules/internal/expr"
)

// A template may be executed for each counted line, so its cost is limited. At 30 ns per byte and instruction, 8 KiB of
// text and 400 instructions of regular expressions take about 100 ms in the worst case.
const (
	maxValue   = 8 << 10 // maximum length in bytes of an argument or result of a function
	maxProgram = 400     // maximum number of instructions of all regular expressions
	maxPattern = 1 << 10 // maximum length of a pattern in bytes
)

// Functions returns the sorted names of the functions of templates.
func Functions() []string {
	return slices.Sorted(maps.Keys(signatures()))
}

// signature checks a call of a function. It returns the kind of the result, or an error and its fix.
type signature func(*checker, call) (k kind, fix string, err error)

// signatures returns the functions of templates by their names.
var signatures = sync.OnceValue(func() map[string]signature {
	ofText, pattern := newSignature(kindText, kindText), (*checker).compilePattern
	return map[string]signature{
		"toUpper": ofText, "toLower": ofText, "title": ofText, "stripPort": ofText, "len": newSignature(kindInteger, kindText),
		"reReplaceAll": newSignature(kindText, kindText, kindText, kindText).withCheck(pattern), "match": newSignature(kindBool, kindText, kindText).withCheck(pattern),
		"printf": checkPrintf, "humanize": checkHumanize, "humanize1024": checkHumanize, "humanizeDuration": checkHumanize,
		"humanizePercentage": checkHumanize, "humanizeTimestamp": checkHumanize,
		"eq": checkEqual, "ne": checkEqual, "lt": checkOrder, "le": checkOrder, "gt": checkOrder, "ge": checkOrder,
		"and": checkLogic, "or": checkLogic, "not": checkNot,
	}
})

// newSignature returns the signature of a function whose arguments have these kinds.
func newSignature(result kind, kinds ...kind) signature {
	return func(_ *checker, f call) (kind, string, error) {
		if len(f.kinds) != len(kinds) {
			return "", "", fmt.Errorf("takes %d arguments, not %d", len(kinds), len(f.kinds))
		}
		for i, want := range kinds {
			if k := f.kinds[i]; k != want {
				return "", `convert it to text: printf "%v" ...`, fmt.Errorf("needs %s, but argument %d is %s", want, i+1, k)
			}
		}
		return result, "", nil
	}
}

// withCheck returns a signature that also runs check on calls that s accepts.
func (s signature) withCheck(check func(*checker, call) (fix string, err error)) signature {
	return func(c *checker, f call) (kind, string, error) {
		k, fix, err := s(c, f)
		if err == nil {
			fix, err = check(c, f)
		}
		return k, fix, err
	}
}

// compilePattern compiles the pattern of a call, which must be a constant and is the first argument.
func (c *checker) compilePattern(f call) (fix string, err error) {
	pattern, ok := f.constantArg(0)
	switch {
	case !ok:
		return "write it in quotes", errors.New("needs a constant pattern as its first argument")
	case len(pattern) > maxPattern:
		return "make it shorter", fmt.Errorf("has a pattern longer than %d bytes", maxPattern)
	}
	// Compiling a pattern takes memory in proportion to its size, so the size is checked first.
	if c.program += expr.Size(pattern); c.program > maxProgram {
		return "use simpler patterns, with smaller repetitions", fmt.Errorf("has a pattern that makes the template too costly (%d instructions, at most %d)", c.program, maxProgram)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return expr.SuggestFix(pattern), fmt.Errorf("has a pattern that is not a regular expression: %s", expr.Reason(err))
	}
	c.regexes[pattern] = re
	return "", nil
}

func checkHumanize(_ *checker, f call) (kind, string, error) {
	if len(f.kinds) != 1 {
		return "", "", fmt.Errorf("takes 1 argument, not %d", len(f.kinds))
	}
	if k := f.kinds[0]; k != kindText && !k.isNumber() {
		return "", "", fmt.Errorf("needs a number, but its argument is %s", k)
	}
	return kindText, "", nil
}

func checkEqual(_ *checker, f call) (kind, string, error) {
	if len(f.kinds) < 2 || f.name == "ne" && len(f.kinds) > 2 {
		return "", "", fmt.Errorf("takes 2 arguments, not %d", len(f.kinds))
	}
	for _, k := range f.kinds[1:] {
		if fix, err := comparable2(f.kinds[0], k); err != nil {
			return "", fix, err
		}
	}
	return kindBool, "", nil
}

func comparable2(a, b kind) (fix string, err error) {
	switch {
	case a == kindMixed || b == kindMixed:
		return "compare values of one type", errors.New("compares an expression with more than one type")
	case a == b || a.isNumber() && b.isNumber():
		return "", nil
	case a == kindText || b == kindText:
		return "write both or neither in quotes; $labels and $vars are text", fmt.Errorf("compares %s with %s", a, b)
	}
	return "", fmt.Errorf("compares %s with %s", a, b)
}

func checkOrder(_ *checker, f call) (kind, string, error) {
	if len(f.kinds) != 2 {
		return "", "", fmt.Errorf("takes 2 arguments, not %d", len(f.kinds))
	}
	if f.kinds[0] == kindBool && f.kinds[1] == kindBool {
		return "", "use eq, ne or not", errors.New("cannot order true and false")
	}
	fix, err := comparable2(f.kinds[0], f.kinds[1])
	return kindBool, fix, err
}

func checkLogic(_ *checker, f call) (kind, string, error) {
	if len(f.kinds) == 0 {
		return "", "", errors.New("needs arguments")
	}
	k := f.kinds[0]
	for _, other := range f.kinds[1:] {
		switch {
		case k == other:
		case k.isNumber() && other.isNumber():
			k = kindDecimal
		default:
			k = kindMixed
		}
	}
	return k, "", nil
}

func checkNot(_ *checker, f call) (kind, string, error) {
	if len(f.kinds) != 1 {
		return "", "", fmt.Errorf("takes 1 argument, not %d", len(f.kinds))
	}
	return kindBool, "", nil
}

// functionError is the error of a function that rejects its argument.
type functionError struct {
	function, reason string
}

func (e *functionError) Error() string { return e.function + ": " + e.reason }

// functionMap returns the functions of this template. The template must have been checked before, because concurrent
// executions read the maps of the checker.
func (c *checker) functionMap() template.FuncMap {
	m := template.FuncMap{
		"toUpper":      func(s string) string { return strings.ToUpper(text.Truncate(s, maxValue)) },
		"toLower":      func(s string) string { return strings.ToLower(text.Truncate(s, maxValue)) },
		"title":        func(s string) string { return titleCase(text.Truncate(s, maxValue)) },
		"stripPort":    stripPort,
		"match":        func(p, s string) bool { return c.regexes[p].MatchString(text.Truncate(s, maxValue)) },
		"reReplaceAll": func(p, repl, s string) string { return replaceAll(c.regexes[p], repl, s) },
		"printf":       func(format string, args ...any) string { return formatText(format, c.formats[format], args) },
		"eq": func(a any, bs ...any) bool {
			return slices.ContainsFunc(bs, func(b any) bool { return compare(a, b) == 0 })
		},
		"ne": func(a, b any) bool { return compare(a, b) != 0 },
		"lt": func(a, b any) bool { return compare(a, b) < 0 },
		"le": func(a, b any) bool { return compare(a, b) <= 0 },
		"gt": func(a, b any) bool { return compare(a, b) > 0 },
		"ge": func(a, b any) bool { return compare(a, b) >= 0 },
	}
	for name, f := range map[string]func(float64) (string, error){
		"humanize": humanize, "humanize1024": humanize1024, "humanizePercentage": humanizePercentage,
		"humanizeDuration":  func(v float64) (string, error) { return templates.HumanizeDuration(v) },
		"humanizeTimestamp": func(v float64) (string, error) { return templates.HumanizeTimestamp(v) },
	} {
		m[name] = acceptText(name, f)
	}
	return m
}

// acceptText returns a function that calls f and also accepts a number in the form of text.
func acceptText(name string, f func(float64) (string, error)) func(any) (string, error) {
	return func(x any) (string, error) {
		v, err := templates.ConvertToFloat(x)
		if err != nil {
			return "", &functionError{name, fmt.Sprintf("%.100q is not a number", fmt.Sprint(x))}
		}
		s, err := f(v)
		if err != nil {
			return "", &functionError{name, err.Error()}
		}
		return s, nil
	}
}

// compare orders two values of comparable kinds. It does not convert integers to floats, because large integers would
// lose digits.
func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case bool:
		if b, ok := b.(bool); ok && a == b {
			return 0
		}
		return 1
	}
	if x, ok := toInteger(a); ok {
		if y, ok := toInteger(b); ok {
			return int(max(-1, min(1, x-y)))
		}
	}
	x, _ := templates.ConvertToFloat(a)
	y, _ := templates.ConvertToFloat(b)
	switch { // NaN counts as equal to everything
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func toInteger(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func titleCase(s string) string {
	before := ' '
	return strings.Map(func(r rune) rune {
		start := !unicode.IsLetter(before) && !unicode.IsDigit(before) && before != '_' && before != '\''
		before = r
		if start {
			return unicode.ToTitle(r)
		}
		return r
	}, s)
}

func stripPort(s string) string {
	host, _, err := net.SplitHostPort(s)
	if err != nil {
		return s
	}
	return host
}

// replaceAll is ReplaceAllString with limited output. A pattern that matches the empty text would otherwise insert a
// long replacement at every character of the text.
func replaceAll(re *regexp.Regexp, repl, s string) string {
	s, repl = text.Truncate(s, maxValue), text.Truncate(repl, maxValue)
	var out []byte
	last := 0
	for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
		out = append(out, s[last:m[0]]...)
		out = re.ExpandString(out, repl, s, m)
		last = m[1]
		if len(out) > maxValue {
			return text.Truncate(string(out), maxValue)
		}
	}
	return text.Truncate(string(append(out, s[last:]...)), maxValue)
}

func humanize(v float64) (string, error) {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%.4g", v), nil
	}
	if math.Abs(v) >= 1 {
		return scaleNumber(v, 1000, "k", "M", "G", "T", "P", "E", "Z", "Y"), nil
	}
	prefix := ""
	for _, p := range []string{"m", "u", "n", "p", "f", "a", "z", "y"} {
		if math.Abs(v) >= 1 {
			break
		}
		prefix = p
		v *= 1000
	}
	return fmt.Sprintf("%.4g%s", v, prefix), nil
}

func humanize1024(v float64) (string, error) {
	if math.Abs(v) <= 1 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%.4g", v), nil
	}
	return scaleNumber(v, 1024, "ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"), nil
}

// scaleNumber divides a number by base until it is smaller than base, and appends the prefix for the number of
// divisions.
func scaleNumber(v, base float64, prefixes ...string) string {
	prefix := ""
	for _, p := range prefixes {
		if math.Abs(v) < base {
			break
		}
		prefix = p
		v /= base
	}
	return fmt.Sprintf("%.4g%s", v, prefix)
}

func humanizePercentage(v float64) (string, error) {
	return fmt.Sprintf("%.4g%%", v*100), nil
}
