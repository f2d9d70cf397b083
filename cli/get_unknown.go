package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
)

func newGetUnknown(c *cli) *cobra.Command {
	f := getFlags{output: newOneOf("text", "json", "rule")}
	cmd := &cobra.Command{
		Use:   "unknown [FINGERPRINT]",
		Short: "List failures that no rule describes; with -o rule, print a rule with tests for one",
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
			data, err := c.fetch(cmd.Context(), f, path)
			if err != nil {
				return err
			}
			switch f.output.value {
			case "json":
				_, err = fmt.Fprintf(c.out, "%s\n", data)
				return err
			case "rule":
				var answer struct{ Pack string }
				if err := json.Unmarshal(data, &answer); err != nil {
					return err
				}
				_, err = io.WriteString(c.out, answer.Pack)
				return err
			}
			return show.UnknownFailures(c.out, data)
		},
	}
	f.add(cmd, defaultURL)
	cmd.Flags().VarP(f.output, "output", "o", "output format")
	return cmd
}
