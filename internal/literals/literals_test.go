package literals

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exprs hold the constructs that are easy to get wrong.
var exprs = []string{
	`a.*b`, `(?i)etcdserver: leader changed`, `MASTER.*sync.*timeout`, `x(?:ab|cd)y`, `foo|bar.*baz`,
	`(?:foo|barfoo).*oo`, `502|503|504`, `ab(?:c|d)*ef`, `ab.+cd`, `^abc`, `abc$`, `\babc\b`,
	`(?:ab.*cd|ef).*gh`, `a(?P<x>\d+)b`, `connection.*refused.*5432|timeout.*database|dial tcp.*refused`,
	`no(?:de)? lost`, `(?:abc){2}`, `(?:ab){1,3}c`, `(?:ab){0,2}c`, `err(?:or)?s?: x`, `(?:a|ab)(?:c|bcd)`,
	`(?i)KUBE.*lost`, `x(\bab)y`, `(?:$|ab)c`, `(foo.*|bar)baz`, `a(?:.*)b`, `ab.*?cd`, `(?i:ab)CD`, `(?i:a1)B`,
	`(?s)a.*b`, `a.b`, `a(?:)b`, `(?:|ab)c`, `[Ff]oo.*[Bb]ar`, `(?i)s`, `(?i)kk`, `a\x{fffd}b`, `a[\x{fffc}-\x{fffe}]b`,
	`[\pL]{1,9}z`, `(?i)école`, `é.*É`, `(a.*b){2}`, `(a.*b)+c`, `(?:a.*b)?c`, `x*ab`, `(?m)^a.*b$`, `a|`, `(?:ab|b).*b`,
	`[^a]b`, `a\nb`, `a.*\n.*b`, `(?i)task (?:ſ|s)et`, `(?:foo)(?:bar)?(?:baz)`, `.*`, `(.*)ab(.*)cd`, `\d+%.*foo`,
	`heart.*time|heart.*fail`, `ab(?:.*b|.*c)d.*e`, `no(.*lost|(?:.*x|.*b).*gone)`, `ab(?:.*c|)`, `(?s)a(?:.*b|.*c)`, `a(?:.*b|.*c){2}`,
}

// condOf returns the condition of an expression.
func condOf(expr string) (*Cond, error) {
	e, err := NewExpression(expr)
	if err != nil {
		return nil, err
	}
	return e.Required(), nil
}

func TestOf(t *testing.T) {
	f := func(expr, want string, exact bool) {
		t.Helper()
		c, err := condOf(expr)
		require.NoError(t, err)
		texts := c.Choose(func(t Text) float64 { return 1 / float64(len(t.Text)) }).Texts
		var got []string
		for _, x := range texts {
			s := x.Text
			if x.Fold {
				s = "(?i)" + s
			}
			got = append(got, s)
		}
		require.Equal(t, want, strings.Join(got, " | "))
		require.Equal(t, exact, c != nil && c.exact)
	}
	f(`leaderelection lost`, "leaderelection lost", true)
	f(`failed to renew lease (?P<l>[a-z/]+): (?:timeout|refused)`, "failed to renew lease ", false)
	f(`x509: certificate (?:has expired|unknown)`, "x509: certificate has expired | x509: certificate unknown", true)
	f(`(?i)leader changed`, "(?i)leader changed", true)
	f(`(?i)disk lost`, "(?i)disk lost | (?i)disk loſt | (?i)dis\u212a lost | (?i)dis\u212a loſt | (?i)diſk lost | (?i)diſk loſt | (?i)diſ\u212a lost | (?i)diſ\u212a loſt", true)
	f(`(?i)successfully assessed lease`, "(?i)fully a", false)
	f(`\d+%.*foo`, "foo", false)
	f(`.*`, "", false)
	f(`[A-Z]+\d+`, "", false)
	f(`(abc)*defg`, "defg", false)
	f(`no(?:de)? lost`, "node lost | no lost", true)
	f(`err(?:or)?: x`, "error: x | err: x", true)
	f(`status=(?:4[0-9]{2}|5[0-9]{2})`, "status=", false)
	f(`(?i:ab)CD`, "(?i)abcd", false)
	f(`^abc`, "abc", false)
	f(`ab.*cd`, "ab", true)
	f(`heart.*time|heart.*fail`, "heart", true)
	f(`heart(?:.*time|.*fail)ed`, "heart", false)
}

func TestPieces(t *testing.T) {
	f := func(expr string, want ...string) {
		t.Helper()
		c, err := condOf(expr)
		require.NoError(t, err)
		texts := c.Pieces(func(b byte) bool { return b != '/' && b != '"' }).Choose(func(t Text) float64 { return 1 / float64(len(t.Text)) }).Texts
		var got []string
		for _, x := range texts {
			got = append(got, x.Text)
		}
		require.Equal(t, want, got)
	}
	f(`^(?:default/clusters)$`, "clusters")
	f(`^(?:a"b|"cd")$`, "a", "cd")
	f(`^(?:a|")$`)
	f(`né/.`, "n")
}

// TestAgainstRegexp checks on lines made of pieces of the expressions that
// conditions are necessary, and sufficient where they say so.
func TestAgainstRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	met := 0
	for _, x := range exprs {
		pieces := regexp.MustCompile(`[^\\()|.*+?{}\[\]^$]+`).FindAllString(x, -1)
		pieces = append(pieces, " ", "x", "", "5", "OO", "a", "b", "\n", "\xff", "\u212a", "\u017f", "\ufffd")
		for range 2000 {
			if check(t, x, randomLine(r, pieces)) {
				met++
			}
		}
	}
	require.Greater(t, met, 10_000)
}

func randomLine(r *rand.Rand, pieces []string) string {
	var b strings.Builder
	for range r.IntN(8) {
		p := pieces[r.IntN(len(pieces))]
		switch k := r.IntN(6); {
		case k == 0 && len(p) > 1:
			p = p[:len(p)-1]
		case k == 1:
			p = strings.ToUpper(p)
		}
		b.WriteString(p)
	}
	return b.String()
}

// check holds a condition to its expression on one line.
func check(t *testing.T, expr, line string) bool {
	t.Helper()
	re, err := regexp.Compile(expr)
	if err != nil {
		return false
	}
	c, err := condOf(expr)
	require.NoError(t, err)
	want := re.MatchString(line)
	end, decided := c.Match([]byte(line))
	met := end >= 0
	if decided {
		require.Equal(t, want, met, "%q on %q", expr, line)
	}
	if decided && met {
		require.Regexp(t, re, line[:end], "%q on %q", expr, line)
	}
	if want {
		require.True(t, met, "%q on %q", expr, line)
		checkChoice(t, c, expr, line)
	}
	return met
}

// checkChoice checks that a line that matches contains a chosen text.
func checkChoice(t *testing.T, c *Cond, expr, line string) {
	t.Helper()
	for _, sign := range []float64{-1, 1} {
		texts := c.Choose(func(t Text) float64 { return sign * float64(len(t.Text)) }).Texts
		found := len(texts) == 0
		for _, x := range texts {
			end, _ := newLeaf(x).Match([]byte(line))
			found = found || end >= 0
		}
		require.True(t, found, "%q on %q", expr, line)
	}
}

func FuzzOf(f *testing.F) {
	for _, x := range exprs {
		f.Add(x, "abab foo bar cd")
	}
	f.Fuzz(func(t *testing.T, expr, line string) {
		if len(expr) > 60 || len(line) > 200 || strings.Contains(expr, "{") {
			return // large counters make regexp itself slow
		}
		check(t, expr, line)
	})
}
