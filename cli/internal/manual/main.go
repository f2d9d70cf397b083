// Command manual writes the man pages and the shell completions of all commands into
// a folder: man/*.1.gz and completions/. The environment variable VERSION is the
// version that the pages show, SOURCE_DATE_EPOCH their date in seconds; the same
// input gives the same bytes.
package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"crowsnest/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Getenv("VERSION")); err != nil {
		fmt.Fprintln(os.Stderr, "write the manual:", err)
		os.Exit(1)
	}
}

// write replaces the folders man and completions in dir.
func write(dir, version string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := errors.Join(os.RemoveAll(d), os.MkdirAll(d, 0o755)); err != nil { //nolint:gosec // for everyone
			return err
		}
	}
	root := cli.Commands()
	if err := errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(completions, "crowsnest.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_crowsnest")),
		root.GenFishCompletionFile(filepath.Join(completions, "crowsnest.fish"), true),
	); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	asMarkdown(root)
	if err := doc.GenManTree(root, &doc.GenManHeader{Source: strings.TrimSpace("crowsnest " + version), Manual: "crowsnest"}, man); err != nil {
		return err
	}
	return compress(man)
}

// asMarkdown prepares the texts of a command for the generator of man pages, which
// reads them as Markdown.
func asMarkdown(cmd *cobra.Command) {
	cmd.Long = markdown(cmd.Long)
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		f.Usage = literal.Replace(usage)
	})
	for _, sub := range cmd.Commands() {
		asMarkdown(sub)
	}
}

// literal protects the characters that Markdown interprets.
var literal = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`)

// markdown returns a help text as Markdown: what is indented becomes a code block.
func markdown(text string) string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		if indented != code && strings.TrimSpace(line) != "" {
			b.WriteString("\n```\n")
			code = indented
		}
		if !code {
			line = literal.Replace(line)
		}
		b.WriteString(line)
	}
	if code {
		b.WriteString("\n```\n")
	}
	return b.String()
}

// compress replaces each file of a folder by its compressed form.
func compress(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		out, err := os.Create(name + ".gz")
		if err != nil {
			return err
		}
		z := gzip.NewWriter(out)
		_, err = z.Write(data)
		if err := errors.Join(err, z.Close(), out.Close(), os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}
