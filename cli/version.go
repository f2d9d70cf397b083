package cli

import (
	"fmt"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"
)

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, build and platform",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(c.out, version.Print("crowsnest"))
			return err
		},
	}
}
