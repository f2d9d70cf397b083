package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/internal/text"
	"crowsnest/lab/sourcecheck"
	"crowsnest/rules/components"
)

func newRulesVerifySource(c *cli) *cobra.Command {
	var f ruleFlags
	var component, coverage string
	var revisions []string
	var all, news bool
	output := newOneOf("text", "json")
	cmd := &cobra.Command{
		Use:   "verify-source --component NAME [flags] DIR...",
		Short: "Find texts of rules that the source of a component no longer has",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			known, ok := components.Find(component)
			if !ok {
				return usageErrorf("--component: there is no component %.60q; %s", component, components.SuggestName(component))
			}
			if len(revisions) > len(dirs) {
				return usageErrorf("--at is given %d times for %s", len(revisions), text.Plural(len(dirs), "folder"))
			}
			set, err := f.load(c)
			if err != nil {
				return err
			}
			var trees []sourcecheck.Tree
			for i, dir := range dirs {
				t := sourcecheck.Tree{Dir: dir}
				if i < len(revisions) {
					t.Revision = revisions[i]
				}
				trees = append(trees, t)
			}
			res, err := sourcecheck.Check(set, known, trees, coverage)
			if err != nil {
				return err
			}
			if output.value == "json" {
				err = show.JSON(c.out, res, true)
			} else {
				err = printSourceCheck(c.out, res, all, news)
			}
			if err == nil && res.Count(sourcecheck.Gone) > 0 {
				err = exitCode(exitFailed)
			}
			return err
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&component, "component", "", "`NAME` in the table of components")
	flags.StringArrayVar(&revisions, "at", nil, "read this `REVISION` of the Git repository in DIR (repeatable: one for each DIR, in order)")
	flags.StringVar(&coverage, "coverage", "docs/coverage", "`FOLDER` with a page per component that names the messages that need no rule")
	flags.BoolVar(&all, "all", false, "also list texts that are found or elsewhere")
	flags.BoolVar(&news, "new", false, "list new messages")
	cmd.Flags().VarP(output, "output", "o", "output format")
	return cmd
}

func printSourceCheck(w io.Writer, r *sourcecheck.Result, all, news bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, a := range r.Answers {
		if !all && (a.State == sourcecheck.Found || a.State == sourcecheck.Elsewhere) {
			continue
		}
		part, missing := a.Part, a.Text
		if len(a.Missing) > 0 {
			missing = strings.Join(a.Missing, " ... ")
		}
		if a.State == sourcecheck.Gone && !a.Lost {
			part += ", has others"
		}
		fmt.Fprintf(out, "%s\t%s\t%s:%d\t%s\t%.200q\n", a.State, a.Alert, a.File, a.Line, part, missing)
		if a.Source != "" {
			fmt.Fprintf(out, "\t\t%s\t\t%.200q\n", a.Source, a.SourceText)
		}
	}
	if news {
		for _, m := range r.New {
			fmt.Fprintf(out, "new\t\t%s\t\t%.200q\n", m.Source, m.Text)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	page := "there is no page about it in docs/coverage"
	if r.Page != "" {
		page = r.Page + " does not name"
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s: %d found, %d in part, %d gone, %d elsewhere\n%s that no rule matches and %s, of %d literals\n",
		r.Component, text.Plural(r.Rules, "rule"), text.Plural(len(r.Answers), "text"),
		r.Count(sourcecheck.Found), r.Count(sourcecheck.InPart), r.Count(sourcecheck.Gone), r.Count(sourcecheck.Elsewhere),
		text.Plural(len(r.New), "message"), page, r.Literals)
	return err
}
