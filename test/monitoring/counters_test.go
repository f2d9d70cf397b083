package monitoring

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// harmless are the counters that need no alert of Prometheus, with the reason.
var harmless = map[string]string{
	"checkpoints_fetched_bytes_total":       "work that was done",
	"checkpoints_sent_bytes_total":          "work that was done",
	"config_map_events_total":               "crowsnest_pack_broken has an alert",
	"agents_batches_total":                  "work that was done",
	"agents_forgotten_total":                "an operator, or forget_after, ended the wait for a node",
	"agents_gaps_total":                     "crowsnest_source_losses_total counts them, too",
	"agents_hits_total":                     "work that was done",
	"agents_losses_total":                   "crowsnest_source_losses_total of the agents counts them",
	"agents_other_version_hits_total":       "they were taken",
	"agents_repeated_batches_total":         "they had been taken before",
	"upstream_blocked_seconds_total":        "crowsnest_upstream_blocked has an alert",
	"dedup_evictions_total":                 "a line that is read again may count twice",
	"dedup_suppressed_total":                "lines that had been counted before",
	"future_lines_total":                    "they are counted at the time of arrival",
	"history_evictions_total":               "the oldest ended episodes; alerts and open episodes are not affected",
	"upstream_hits_total":                   "work that was done",
	"episode_overflow_total":                "an alert of the rule with the label overflow is about them",
	"late_lines_total":                      "they are counted",
	"notifications_total":                   "work that was done",
	"unknown_skipped_lines_total":           "equal lines were looked at",
	"unknown_evictions_total":               "the patterns of a namespace that writes too many; rules are not affected",
	"unknown_alerts_total":                  "work that was done",
	"unknown_lines_total":                   "an alert UnknownFailure is about those that persist",
	"upstream_resent_batches_total":         "nothing is lost by sending again",
	"rule_matches_total":                    "work that was done",
	"rule_missing_values_total":             "the lines count, with an empty value",
	"rule_windows_evicted_total":            "crowsnest_evictions_total has an alert",
	"rule_seconds_total":                    "work that was done",
	"rule_tries_total":                      "work that was done",
	"source_bytes_total":                    "work that was done",
	"source_errors_total":                   "crowsnest_source_up and crowsnest_source_lag_seconds have alerts",
	"source_evaluated_lines_total":          "work that was done",
	"source_lines_total":                    "work that was done",
	"source_lost_bytes_total":               "crowsnest_source_losses_total counts each time",
	"source_truncated_lines_total":          "their first 16 KiB were looked at",
	"source_unparsed_lines_total":           "they were looked at as they are",
	"notification_discovery_failures_total": "CrowsnestDiscoveryFailing compares crowsnest_notification_discovery_up",
	"template_errors_total":                 "the alert is sent with the text of the template",
}

var counterName = regexp.MustCompile(`^[a-z][a-z_]*_total$`)

// Every counter in the code has either an alert of Prometheus, or a reason here why it
// needs none.
func TestEveryLossHasAnAlert(t *testing.T) {
	text, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	found := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "test" || d.Name() == ".git") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		for _, name := range counters(t, path) {
			found++
			if harmless[name] == "" {
				require.Regexp(t, `crowsnest_([a-z]+_)?`+name+`\b`, string(text), "%s: add an alert to deploy/monitoring/rules/crowsnest.yaml, or a reason to harmless", path)
			}
		}
		return nil
	}))
	require.Greater(t, found, 30)
}

// counters returns the names of counters in a file.
func counters(t *testing.T, path string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && counterName.MatchString(s) {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}
