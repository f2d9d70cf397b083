package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/text"
)

// Limits of the output of printf.
const (
	maxPrintfArgs  = 16
	maxPrintfWidth = 64
)

var printfVerb = lazyre.New(`^[-+# 0]*([0-9]*)(?:\.([0-9]*))?([a-zA-Z%])`)

func checkPrintf(c *checker, f call) (kind, string, error) {
	format, ok := f.constantArg(0)
	if !ok {
		return "", "write it in quotes", errors.New("needs a constant format as its first argument")
	}
	if len(f.kinds)-1 > maxPrintfArgs {
		return "", "use several calls", fmt.Errorf("takes at most %d values", maxPrintfArgs)
	}
	verbs, fix, err := printfVerbs(format)
	if err != nil {
		return "", fix, err
	}
	if len(verbs) != len(f.kinds)-1 {
		return "", "", fmt.Errorf("has %d verbs for %d values", len(verbs), len(f.kinds)-1)
	}
	for i, v := range verbs {
		if fix, err := verbTakes(v, f.kinds[i+1]); err != nil {
			return "", fix, err
		}
	}
	c.formats[format] = verbs
	return kindText, "", nil
}

func printfVerbs(format string) (verbs []byte, fix string, err error) {
	for rest := format; ; {
		at := strings.IndexByte(rest, '%')
		if at < 0 {
			return verbs, "", nil
		}
		m := printfVerb.FindStringSubmatch(rest[at+1:])
		if m == nil {
			return nil, "use a number as the width; for a percent sign write %%", fmt.Errorf("has a format with an invalid verb: %.20q", rest[at:])
		}
		for _, n := range m[1:3] {
			if w, err := strconv.Atoi(n); n != "" && (err != nil || w > maxPrintfWidth) {
				return nil, fmt.Sprintf("use at most %d", maxPrintfWidth), fmt.Errorf("has a width of %s", n)
			}
		}
		if m[3] != "%" {
			verbs = append(verbs, m[3][0])
		}
		rest = rest[at+1+len(m[0]):]
	}
}

// verbsOf maps the kind of a value to the verbs that accept it.
var verbsOf = map[kind]string{kindText: "vsq", kindInteger: "vdxXobeEfFgG", kindDecimal: "veEfFgG", kindBool: "vt", kindMixed: "v"}

func verbTakes(verb byte, k kind) (fix string, err error) {
	switch {
	case strings.IndexByte("vsqdxXobeEfFgGt", verb) < 0:
		return "use one of %v %s %q %d %x %f %g %e %t", fmt.Errorf("does not support %%%c", verb)
	case strings.IndexByte(verbsOf[k], verb) < 0:
		return "use %v, which accepts any value", fmt.Errorf("has the verb %%%c for a value that is %s", verb, k)
	}
	return "", nil
}

// formatText is Sprintf with limited arguments and output. It converts integers to floats where the verb requires a
// float.
func formatText(format string, verbs []byte, args []any) string {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = text.Truncate(s, maxValue)
		}
		if n, ok := toInteger(a); ok && i < len(verbs) && strings.IndexByte("eEfFgG", verbs[i]) >= 0 {
			args[i] = float64(n)
		}
	}
	return text.Truncate(fmt.Sprintf(format, args...), maxValue)
}
