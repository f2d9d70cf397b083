package export

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLineFilter finds the expressions that Loki simplifies to wrong texts.
func TestLineFilter(t *testing.T) {
	for expr, changed := range map[string]bool{
		`lost`: false, `lost|gone`: false, `(lost)|(losing)`: false, `lost .* lease`: false, `^(?:lost|gone)$`: true,
		`lost|losing`: false, `lost (?:a lease|lock)`: false, `lost (?:lease|lock)`: true, `(?:lost|gone) lease`: true, `lease .*(?:lost|gone)`: true, `((lease) .*((?:lost|gone)))`: true,
		`a lease (?:was (?:lost|gone) here|is away)`: true, `lease(?:| lock) lost`: true, `\d+ (?:lost|gone)`: true, `(?:lost|gone){2}`: true, `lost [ab]`: false,
		`(?i)lost (?:a lease|lock)`: false,
	} {
		got := lineFilter(expr)
		require.Equal(t, changed, got != expr, expr)
		for _, line := range []string{"", "lost", "gone", "lost lease", "x lost lease y", "lease was gone", "lease  gone", "a lease was lost here", "7 gone", "lostgone", "lost a", "LOST LOCK"} {
			require.Equal(t, regexp.MustCompile(expr).MatchString(line), regexp.MustCompile(got).MatchString(line), "%s %q", expr, line)
		}
	}
}
