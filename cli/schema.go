package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/daemon/casefile"
	"crowsnest/daemon/config"
	"crowsnest/rules/schema"
	"crowsnest/web"
)

func newSchema(c *cli) *cobra.Command {
	one := func(use, short string, make func() ([]byte, error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				b, err := make()
				if err != nil {
					return fmt.Errorf("generate the schema: %w", err)
				}
				_, err = fmt.Fprintf(c.out, "%s\n", strings.TrimSpace(string(b)))
				return err
			},
		}
	}
	return newParent("schema", "Print JSON Schemas (2020-12) and the OpenAPI document",
		one("rules", "The schema of rule packs and overrides", schema.Rules),
		one("config", "The schema of the configuration", config.Default().Schema),
		one("case", "The schema of case files in JSON", casefile.Schema),
		one("api", "The OpenAPI 3.1 document of a daemon's HTTP API", func() ([]byte, error) { return web.OpenAPI(), nil }),
	)
}
