package cli

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Help names the value of each flag: in capitals, as the values or limits that it accepts, or as
// a form. Ranges of time are --since and --until, and settings of clients are
// --http.config.file, in every command.
func TestFlagValues(t *testing.T) {
	form := regexp.MustCompile(`^([A-Z][A-Z_]*|[a-z]+(\|[a-z]+)*|[0-9][0-9a-z]*\.\.[0-9][0-9a-z]*(\|TIME)?|(name|from)=(value|to))$`)
	typeOfGo := regexp.MustCompile(`^(string|strings|stringArray|int|uint|float|duration|count|bytes|ip)$`)
	timeRange := regexp.MustCompile(`(?i)\bTIME\b`)
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			seen++
			name, usage := pflag.UnquoteUsage(f)
			where := cmd.CommandPath() + " --" + f.Name + " " + name
			require.Regexp(t, form, name, where)
			require.NotRegexp(t, typeOfGo, name, where)
			require.NotContains(t, usage, "`", where)
			if timeRange.MatchString(name) {
				require.Contains(t, []string{"since", "until"}, f.Name, where)
			}
			if regexp.MustCompile(`http.?config`).MatchString(f.Name) || regexp.MustCompile(`http_config`).MatchString(usage) {
				require.Equal(t, httpConfigFlag, f.Name, where)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(allCommands())
	require.Greater(t, seen, 100)
}

// allCommands returns the commands; they read nothing and discard what they write.
func allCommands() *cobra.Command {
	return newRoot(&cli{in: strings.NewReader(""), out: io.Discard, err: io.Discard, getenv: func(string) string { return "" }})
}
