package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/casefile"
	"crowsnest/cli/internal/reference"
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
	language := one("rules", "The schema of rule packs and overrides", schema.Rules)
	output := newOneOf("json", "markdown")
	printSchema := language.RunE
	language.RunE = func(cmd *cobra.Command, args []string) error {
		if output.value == "json" {
			return printSchema(cmd, args)
		}
		page, err := reference.Language()
		if err != nil {
			return fmt.Errorf("generate the reference: %w", err)
		}
		_, err = io.WriteString(c.out, page)
		return err
	}
	language.Flags().VarP(output, "output", "o", "output format: the schema, or a reference of the language")
	return parent("schema", "Print JSON Schemas (2020-12) and the OpenAPI document", language,
		one("config", "The schema of the configuration", config.Default().Schema),
		one("case", "The schema of case files in JSON", casefile.Schema),
		one("api", "The OpenAPI 3.1 document of a daemon's HTTP API", func() ([]byte, error) { return web.OpenAPI(), nil }),
	)
}
