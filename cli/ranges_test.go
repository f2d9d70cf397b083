package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// limits are values of a flag at its bounds, beyond them, and what the error names.
type limits struct {
	good, bad []string
	message   string
}

// limitsOf returns the limits of a flag by its kind, false for one without values.
func limitsOf(t *testing.T, f *pflag.Flag) (limits, bool) {
	strange := []string{"", "-1", "-1s", "NaN", "+Inf", "1e400", "9223372036854775808", "99999999999999999999y", "x"}
	long := strings.Repeat("x", maxText+1)
	switch v := f.Value.(type) {
	case *number[int]:
		return limits{[]string{digits(v.min), digits(v.max)}, append(strange, digits(v.min-1), digits(v.max+1)), digits(v.min) + " to " + digits(v.max)}, true
	case *number[int64]:
		return limits{[]string{digits(v.min), digits(v.max)}, append(strange, digits(v.min-1), digits(v.max+1)), digits(v.min) + " to " + digits(v.max)}, true
	case *period:
		return limits{[]string{length(v.min), length(v.max)}, append(strange, "0s", length(v.min-time.Millisecond), length(v.max+time.Millisecond)), length(v.min) + " to " + length(v.max)}, true
	case *instant:
		l := limits{[]string{"1970-01-01T00:00:00Z", "2261-12-31T23:59:59Z"}, append(strange, "1969-12-31T23:59:59Z", "2262-01-01T00:00:00Z", "9999-12-31T23:59:59Z"), "1970 to 2261"}
		if v.before != nil {
			l.good = append(l.good, length(v.before.min), length(v.before.max))
			l.bad = append(l.bad, "0s", length(v.before.max+time.Millisecond))
		}
		return l, true
	case *oneOf:
		return limits{v.allowed, []string{"-1", "NaN", long}, "is not one of"}, true
	case pflag.SliceValue:
		return limits{nil, []string{long}, "use at most 4096"}, true
	}
	switch f.Value.Type() {
	case "bool":
		return limits{}, false
	case "string":
		if f.Name == "line" {
			return limits{nil, []string{strings.Repeat("x", maxLine+1)}, "use at most 65536"}, true
		}
		return limits{nil, []string{long}, "use at most 4096"}, true
	}
	require.Fail(t, "flag without bounds", "--%s is %s: use number or period", f.Name, f.Value.Type())
	return limits{}, false
}

func digits[T int | int64](n T) string { return (&number[T]{value: &n}).String() }

func length(d time.Duration) string { return (&period{value: &d}).String() }

// commands calls f with every command and the words that name it.
func commands(cmd *cobra.Command, path []string, f func(*cobra.Command, []string)) {
	f(cmd, path)
	for _, sub := range cmd.Commands() {
		commands(sub, append(slices.Clone(path), sub.Name()), f)
	}
}

// TestEveryFlagHasBounds tries each flag of each command at its bounds and beyond
// them, on the command line and as environment variable: beyond is an error of
// usage that names the flag and the range.
func TestEveryFlagHasBounds(t *testing.T) {
	tried := 0
	commands(newRoot(&cli{}), nil, func(cmd *cobra.Command, path []string) {
		words := slices.Clone(path)
		for n := 0; n < 2 && cmd.Args != nil && cmd.Args(cmd, words[len(path):]) != nil; n++ {
			words = append(words, "X")
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			l, ok := limitsOf(t, f)
			if !ok {
				return
			}
			tried++
			for _, value := range l.good {
				require.NoError(t, f.Value.Set(value), "%s --%s=%s", cmd.CommandPath(), f.Name, value)
			}
			for _, value := range l.bad {
				name := strings.Join(path, " ") + " --" + f.Name + "=" + value[:min(len(value), 30)]
				_, errs, code := asked(nil, append(slices.Clone(words), "--"+f.Name+"="+value)...)
				require.Equal(t, exitUsage, code, "%s: %s", name, errs)
				require.Contains(t, errs, "--"+f.Name, name)
				require.Contains(t, errs, l.message, name)
				if value == "" {
					continue // as if it were not set
				}
				_, errs, code = asked(map[string]string{envName(f.Name): value}, words...)
				require.Equal(t, exitUsage, code, "%s: %s", name, errs)
				require.Contains(t, errs, l.message, name)
			}
		})
	})
	require.Greater(t, tried, 60)
}

// TestArgumentsHaveBounds refuses arguments that are too long and too many values
// of a flag.
func TestArgumentsHaveBounds(t *testing.T) {
	f := func(message string, args ...string) {
		t.Helper()
		_, errs, code := asked(nil, args...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, message)
	}
	long := strings.Repeat("x", maxText+1)
	f("argument 1 has 4097 bytes; use at most 4096", "scan", long)
	f("argument 2 has 4097 bytes; use at most 4096", "get", "alerts", "a=b", "c="+long[2:])
	f("--label has 1001 values; use at most 1000", append([]string{"scan"}, slices.Repeat([]string{"--label=a=b"}, maxTexts+1)...)...)
	f("--web.external-url: external_url is not an absolute", "run", "--web.external-url=javascript:alert(1)")
}
