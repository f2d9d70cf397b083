package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/show"
)

func newGetUnknown(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "wide", "json", "rule")}
	cmd := &cobra.Command{
		Use:   "unknown [FINGERPRINT]",
		Short: "List failures that no rule describes; with -o rule, print a rule with tests for one",
		Long:  "List failures that no rule describes. With -o rule and a fingerprint, print a rule\nwith tests for one.\n\n" + watchText,
		Example: "  crowsnest get unknown\n" +
			"  crowsnest get unknown -o rule 8c1f0de2a94b7730 > new.yaml",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "unknown"
			switch rule := f.output.value == "rule"; {
			case rule && len(args) == 0:
				return usageErrorf("get unknown -o rule needs the fingerprint of a failure")
			case !rule && len(args) > 0:
				return usageErrorf("get unknown accepts a fingerprint only with -o rule")
			case rule:
				path += "/" + args[0] + "/rule"
			}
			if f.output.value != "rule" {
				return c.get(cmd.Context(), f, getKind{path: path, list: show.UnknownFailures}, nil)
			}
			if f.watch {
				return usageErrorf("-o rule prints one rule: it cannot be combined with --watch")
			}
			data, err := f.fetch(cmd.Context(), path)
			if err != nil {
				return err
			}
			var answer struct{ Pack string }
			if err := json.Unmarshal(data, &answer); err != nil {
				return err
			}
			_, err = io.WriteString(c.out, answer.Pack)
			return err
		},
	}
	f.add(cmd, api.DefaultAddress)
	f.addList(cmd)
	return cmd
}
