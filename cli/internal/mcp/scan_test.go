package mcp

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

const lease = "2026-01-02T03:00:00Z E0101 lost the lease password=hunter2 " + hostile + "\n"

func TestScan(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // nothing is written
	c := connect(t, "http://127.0.0.1:1", nil)
	got := call[scanOut](c, "scan", args{"lines": lease, "labels": args{"namespace": "kube-system", "container": "manager"}})
	require.Equal(t, "1 alert.", got.Verdict)
	require.Equal(t, "kube-system", got.FromLogs.Alerts[0].Labels["namespace"])
	require.Equal(t, "Restart it.", got.FromLogs.Alerts[0].Remediation)
	require.Contains(t, got.FromLogs.Alerts[0].Line, "<redacted>")
	require.NotContains(t, fmt.Sprint(got), "hunter2")
	require.EqualValues(t, 1, got.FromLogs.Hits)
	require.False(t, got.Seen.Complete)
	require.Equal(t, "lines of the call, evaluated with demo.yaml", got.Seen.Basis)
	require.Contains(t, got.Seen.NotSeen[0].Text, "Nothing but the lines of the call was read")

	got = call[scanOut](c, "scan", args{"lines": "2026-01-02T03:00:00Z all is fine\n"})
	require.Contains(t, got.Verdict, "this does not mean that all is well")

	for want, in := range map[string]args{
		"at most 1048576 are allowed": {"lines": strings.Repeat("x", maxLines+1)},
		"scan needs lines":            {"lines": ""},
		"missing properties":          {},
	} {
		require.Contains(t, c.fails("scan", in), want)
	}
}

// Calls share one set of rules.
func TestScanConcurrent(t *testing.T) {
	set := demo(t)
	c := connect(t, "http://127.0.0.1:1", func(cfg *Config) { cfg.Scan = scanWith(func() (*rules.Set, error) { return set, nil }) })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			res, err := c.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "scan", Arguments: args{"lines": strings.Repeat(lease, 200)}})
			if assert.NoError(t, err) {
				assert.Contains(t, textOf(res), `"verdict":"1 alert."`)
			}
		})
	}
	all.Wait()
}

func TestScanManyAlerts(t *testing.T) {
	var lines strings.Builder
	for i := range 400 {
		fmt.Fprintf(&lines, "2026-01-02T03:00:00Z [pod/team-%d/manager] lost the lease %s\n", i, strings.Repeat("y", 2000))
	}
	got := call[scanOut](connect(t, "http://127.0.0.1:1", nil), "scan", args{"lines": lines.String(), "labels": args{"container": "manager"}})
	require.EqualValues(t, 400, got.FromLogs.Lines)
	require.NotEmpty(t, got.FromLogs.Alerts)
	require.Less(t, len(got.FromLogs.Alerts), 25)
}
