package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/internal/text"
	"crowsnest/web/runbook"
)

func newRulesDocs(c *cli) *cobra.Command {
	var f ruleFlags
	var out string
	cmd := &cobra.Command{
		Use: "docs [flags] [RULE]", Short: "Write a runbook page per rule", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := f.loadWithTests(c)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				r, err := show.FindRule(set, args[0])
				if err != nil {
					return err
				}
				if out != "" {
					return usageErrorf("--out writes the pages of all rules; remove %s", args[0])
				}
				_, err = io.WriteString(c.out, runbook.Page(set, r))
				return err
			}
			return c.writePages(runbook.Pages(set), out)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write files into this `FOLDER`; create it if it does not exist")
	return cmd
}

func (c *cli) writePages(pages map[string]string, dir string) error {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if dir == "" {
			if _, err := io.WriteString(c.out, pages[name]+"\n"); err != nil {
				return err
			}
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create the folder for pages: %w", err)
		}
		if err := os.WriteFile(path, []byte(pages[name]), 0o644); err != nil {
			return fmt.Errorf("write a page: %w", err)
		}
	}
	if dir != "" {
		fmt.Fprintf(c.err, "%s in %s\n", text.Plural(len(pages), "page"), dir)
	}
	return nil
}
