package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var (
	// A command of a document: in a line of a block, or in code within a sentence.
	blockCommand  = regexp.MustCompile(`(?m)^\s*(?:\$ |- )?(?:.*\| )?(?:bin/)?crowsnest ([a-z].*(?:\\\n.*)*)$`)
	inlineCommand = regexp.MustCompile("`crowsnest ([a-z][^`]*)`")
	codeBlock     = regexp.MustCompile("(?ms)^```[a-z]*[^\n]*\n(.*?)^```")
	// What ends a command for this purpose: a comment, a pipe, a redirection.
	commandEnd = regexp.MustCompile(`\s+(#|\||>|2>|&&).*`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// Every command that a document shows is there, with the flags that it shows.
func TestCommandsInDocuments(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repoRoot, "docs/*.md"))
	require.NoError(t, err)
	n := 0
	for _, file := range append(files, filepath.Join(repoRoot, "README.md"), filepath.Join(repoRoot, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var lines []string
		for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
			for _, m := range blockCommand.FindAllStringSubmatch(block[1], -1) {
				lines = append(lines, m[1])
			}
		}
		for _, m := range inlineCommand.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			lines = append(lines, strings.ReplaceAll(m[1], `\|`, " or ")) // a table of choices
		}
		for _, line := range lines {
			n++
			checkCommand(t, filepath.Base(file), line)
		}
	}
	require.Greater(t, n, 50)
}

// checkCommand fails if there is no such command, or it has no such flag.
func checkCommand(t *testing.T, file, line string) {
	t.Helper()
	line = quoted.ReplaceAllString(strings.ReplaceAll(line, "\\\n", " "), "TEXT")
	line = commandEnd.ReplaceAllString(line, "")
	words := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(line))
	cmd, rest, err := allCommands().Find(words)
	require.NoError(t, err, "%s: crowsnest %s", file, line)
	require.False(t, cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"), "%s: crowsnest %s: no such command", file, line)
	for _, word := range rest {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			require.NotNil(t, flagOf(cmd, name), "%s: crowsnest %s has no --%s", file, line, name)
		} else if len(word) == 2 && word[0] == '-' {
			require.NotNil(t, cmd.Flags().ShorthandLookup(word[1:]), "%s: crowsnest %s has no %s", file, line, word)
		}
	}
}

func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(name)
}
