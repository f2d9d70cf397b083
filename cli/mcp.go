package cli

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/version"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/mcp"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/web"
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
		Short: "Serve alerts, case files and scans to a language model, read-only, over MCP",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.mcpConfig(f)
			if err != nil {
				return err
			}
			return mcp.New(cfg).Run(cmd.Context(), c.in, c.out)
		},
	}
	f.daemon.add(cmd)
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	f.log.add(cmd)
	return cmd
}

func (c *cli) mcpConfig(f mcpFlags) (mcp.Config, error) {
	client, err := f.daemon.newClient()
	if err != nil {
		return mcp.Config{}, err
	}
	for _, p := range slices.Concat(f.rules.paths, f.rules.overrides) {
		if p == inputs.Stdin {
			return mcp.Config{}, usageErrorf("mcp cannot read rules from standard input, which carries the protocol")
		}
	}
	load, err := f.ruleLoader(c)
	if err != nil {
		return mcp.Config{}, err
	}
	hide := redact.New(nil)
	return mcp.Config{
		Daemon: client, RulesName: f.rules.describe(),
		Scan: func(_ context.Context, lines string, labels map[string]string) (web.Scanned, error) {
			set, err := load()
			if err != nil {
				return web.Scanned{}, err
			}
			return scan.ForPage(lines, labels, set, hide, time.Now())
		},
		Version: version.Version, Now: time.Now, Log: f.log.newLogger(c),
		InName: func(text string) string { return c.inName(c.root, text) },
	}, nil
}

// newMCPHandler returns the handler that serves MCP at /mcp of a daemon.
func newMCPHandler(log zerolog.Logger) func(web.Tools) http.Handler {
	return func(tools web.Tools) http.Handler {
		return mcp.New(mcp.Config{
			Daemon: tools, Scan: tools.ScanLines, RulesName: "the rules of this daemon",
			Version: version.Version, Now: time.Now, Log: log.Level(max(zerolog.WarnLevel, log.GetLevel())), // a lower level logs every request
		}).Handler()
	}
}

// ruleLoader returns a function that loads the local rules. Rule files are read once at the start, so that invalid
// files are refused, and again in every call, because people edit them. The shipped packs are loaded in the first call
// that needs them.
func (f *mcpFlags) ruleLoader(c *cli) (func() (*rules.Set, error), error) {
	load := func() (*rules.Set, error) { return f.rules.load(c) }
	if len(f.rules.paths)+len(f.rules.overrides) > 0 {
		_, err := load()
		return load, err
	}
	_, err := f.rules.trustedNamespaces()
	return sync.OnceValues(load), err
}
