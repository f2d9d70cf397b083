package discover

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// others returns logs of controllers that were not used to tune the words and
// points, and the rating of each line: "!" should be looked at first, "?" may be,
// "." is harmless.
func others(t *testing.T) (logs []Input, worth map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/others.log")
	require.NoError(t, err)
	worth = map[string]string{}
	var name string
	var log strings.Builder
	end := func() {
		if name != "" {
			logs = append(logs, input(name, log.String(), matcher.Labels{"namespace": "infra", "pod": name + "-0", "container": name}))
		}
		log.Reset()
	}
	for row := range strings.Lines(string(data)) {
		row = strings.TrimSuffix(row, "\n")
		if next, ok := strings.CutPrefix(row, "# "); ok {
			end()
			name = next
			continue
		}
		f := strings.SplitN(row, " ", 4)
		require.Len(t, f, 4, row)
		n, err := strconv.Atoi(f[1])
		require.NoError(t, err)
		every, err := time.ParseDuration(f[2])
		require.NoError(t, err)
		for i := range n {
			at := now.Add(-4*time.Hour + time.Duration(i)*every)
			fmt.Fprintf(&log, "%s stderr F %s\n", at.Format(time.RFC3339Nano), f[3])
		}
		worth[f[3]] = f[0]
	}
	end()
	return logs, worth
}

// What an on-call engineer should look at first ranks first, also for other controllers.
func TestOrder(t *testing.T) {
	logs, worth := others(t)
	r := find(t, nil, Options{Redactor: redact.New(nil)}, logs...)
	var order []string
	first := 0
	for _, w := range worth {
		if w == "!" {
			first++
		}
	}
	for i, p := range r.Patterns {
		order = append(order, worth[string(p.Example)])
		t.Logf("%3d %s %.1f %s %s | %s", i+1, worth[string(p.Example)], p.Score, p.Level, p.Template, p.Error)
	}
	count := func(marks []string, mark string) (n int) {
		for _, m := range marks {
			if m == mark {
				n++
			}
		}
		return n
	}
	require.Equal(t, first, count(order, "!"), "every serious line has a pattern")
	require.Equal(t, 10, count(order[:10], "!"))
	require.GreaterOrEqual(t, count(order[:first], "!"), first-2)
	require.Zero(t, count(order[:first], "."))
	require.LessOrEqual(t, count(order, "."), 1, "harmless lines with a word that complains")
}
