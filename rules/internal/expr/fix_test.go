package expr

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The fix of a part that RE2 does not have says what to write instead.
func TestFix(t *testing.T) {
	for pattern, want := range map[string]string{
		`failed (?!lease)x`:    "as `not` beside it",
		`failed (?<!lease)x`:   "as `not` beside it",
		`(?i:failed(?!lease))`: "as `not` beside it",
		`a(?=b)`:               "parts of the matcher",
		`(?<=a)b`:              "named group",
		`a(?>b)`:               "(?:...)",
		`a(?#b)`:               "comment of the YAML",
		`(?x) a b`:             "without spaces",
		`(a+)b\1`:              "back-references",
		`(?P<n>a)(?P=n)`:       "back-references",
		`(?P<n>a)\k<n>`:        "back-references",
		`a++b`:                 "possessive",
		`a*+b`:                 "possessive",
		`a\h+`:                 `[ \t]`,
		`a\Z`:                  `\z`,
		`a\u0041`:              `\x{...}`,
		`a\j`:                  `write \\j`,
		`a\`:                   `write \\`,
		`+a`:                   `write \+`,
		`*.log`:                "not a glob",
		`some (text`:           `\(`,
		`some text)`:           `\)`,
		`some [text`:           `\[`,
		`a{2000}`:              "1000",
		`[z-a]`:                "smaller",
		`(?P<a-b>a)`:           "(?P<name>...)",
	} {
		require.Contains(t, SuggestFix(pattern), want, pattern)
	}
}
