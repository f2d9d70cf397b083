package rules

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/internal/expr"
)

// FuzzAdmission: an expression that is admitted is small, or is tried only on
// lines that hold a text of four bytes, and every line that it matches does.
func FuzzAdmission(f *testing.F) {
	for _, pattern := range []string{
		`[\pL]{1,900}z`, `leaderelection lost`, `(a|b|c)x{1,50}`, `lease(\w{1,30}){1,10}`, `(?i)disk (?P<a>\w+)`, `(?i)\x{212a}elvin|kelvin`,
		`((a{1,30}){1,30}){1,30}`, `(?:abcd|abce|[xy]bcd)`, `^.*$`, `(abcd)?efgh{1,100}`, `(?s).{1,1000}abcd`, `(x+x+)+y`, `\Aabcd|\z`,
	} {
		f.Add(pattern, "leaderelection lost abcd kelvin efgh")
	}
	f.Add(`(?i)full code (?P<a>\w+)`, "FULL Code x") // texts of any case are in lower case
	f.Fuzz(func(t *testing.T, pattern, line string) {
		re, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 200 || strings.ContainsAny(pattern, "\x00\n\r") {
			return
		}
		pack := "pack: {name: p}\nrules:\n- alert: A\n  from: '{a=\"b\"}'\n  severity: info\n  match: {regex: " + strconv.QuoteToASCII(pattern) + "}\n"
		set := buildOne([]byte(pack))
		if set == nil {
			return
		}
		r := set.Rules[0]
		require.LessOrEqual(t, r.MaxLineTime(), 100*time.Millisecond)
		parsed, err := syntax.Parse(r.Steps[0].Matcher.Regex.String(), syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		texts, n := r.Steps[0].Matcher.Required().Longest()
		if len(prog.Inst) > int(maxLineCost/expr.SizeCost(1)) {
			require.GreaterOrEqual(t, n, minLiteral, "%d instructions on every line", len(prog.Inst))
		}
		if n < minLiteral || !re.MatchString(line) {
			return
		}
		held := false
		for _, text := range texts {
			held = held || strings.Contains(line, text.Text) || text.Fold && strings.Contains(strings.ToLower(line), text.Text)
		}
		require.True(t, held, "%q matches %q, which holds none of %q", pattern, line, texts)
	})
}
