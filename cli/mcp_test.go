package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// A client talks over standard input and output. Secrets and control characters in lines do not reach it.
func TestMCP(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("pack: {name: p, rules: 1}\nrules:\n"+
		"- {alert: LeaseLost, from: '{container=\"manager\"}', match: lost the lease, by: [namespace], severity: critical}\n"), 0o600))
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	var log bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- Run([]string{"mcp", "--url", "http://127.0.0.1:1", "--rules", rules}, in, out, &log, func(string) string { return "" })
		_ = out.Close()
	}()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: answers, Writer: feed}, nil)
	require.NoError(t, err)
	call := func(tool string, args map[string]any) string {
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			return err.Error()
		}
		return res.Content[0].(*sdk.TextContent).Text
	}
	require.Contains(t, call("alerts", nil), "is it running there")
	found := call("scan", map[string]any{"lines": "2026-01-02T03:00:00Z lost the lease password=hunter2 \x1b[31m\n", "labels": map[string]any{"container": "manager"}})
	require.Contains(t, found, `"verdict":"1 alert`)
	require.NotContains(t, found, "hunter2")
	require.NotContains(t, found, "u001b")
	require.Contains(t, call("scan", map[string]any{"path": "rules.yaml"}), "unexpected additional properties")
	require.NoError(t, session.Close())
	require.Zero(t, <-code)
	require.Contains(t, log.String(), "server session connected")
	require.NotContains(t, log.String(), "hunter2")
}
