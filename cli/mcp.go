package cli

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/version"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/api"
	"crowsnest/cli/internal/mcp"
	"crowsnest/lab/inputs"
	"crowsnest/rules"
)

type mcpFlags struct {
	daemon getFlags
	rules  ruleFlags
	log    logFlags
}

func newMCP(c *cli) *cobra.Command {
	f := mcpFlags{log: newLogFlags()}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve alerts, rules and replays to a language model, read-only, over MCP",
		Long: `Serves the Model Context Protocol on standard input and output, for a program
that starts it, such as an editor or an assistant. It ends with its input.

The tools list the open alerts of a running daemon, the history and the case file
of one, and what the daemon can and cannot see; they list and explain rules, and
try rules on lines of a call. None of them changes anything or reads a log.

Secrets in text from logs are redacted. docs/mcp.md describes the tools.`,
		Example: `  crowsnest mcp --url http://localhost:9797
  crowsnest mcp --url https://crowsnest.example.org --http.config.file client.yml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.mcpConfig(f)
			if err != nil {
				return err
			}
			return mcp.New(cfg).Run(cmd.Context(), c.in, c.out)
		},
	}
	f.daemon.add(cmd, api.DefaultAddress)
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	f.log.add(cmd)
	return cmd
}

func (c *cli) mcpConfig(f mcpFlags) (mcp.Config, error) {
	client, err := f.daemon.client()
	if err != nil {
		return mcp.Config{}, err
	}
	for _, p := range slices.Concat(f.rules.paths, f.rules.overrides) {
		if p == inputs.Stdin {
			return mcp.Config{}, usageErrorf("mcp cannot read rules from standard input, which carries the protocol")
		}
	}
	load, err := f.loader(c)
	if err != nil {
		return mcp.Config{}, err
	}
	return mcp.Config{
		Daemon: client, Rules: load, RulesName: f.rules.name(),
		Version: version.Version, Now: time.Now, Log: f.log.logger(c),
		InName: func(text string) string { return c.inName(c.root, text) },
	}, nil
}

// loader returns what loads the local rules. Files are read for every call, because people edit
// them, and at the start, to refuse broken ones. The shipped packs are read for the first call
// that needs them.
func (f *mcpFlags) loader(c *cli) (func() (*rules.Set, error), error) {
	load := func() (*rules.Set, error) { return f.rules.load(c) }
	if len(f.rules.paths)+len(f.rules.overrides) > 0 {
		_, err := load()
		return load, err
	}
	_, err := f.rules.trusted()
	return sync.OnceValues(load), err
}
