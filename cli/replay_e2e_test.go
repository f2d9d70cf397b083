//go:build e2e

package cli

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest"
	"crowsnest/sources/kubelet"
	"crowsnest/test/servers"
)

// incident is one recorded incident, moved so that it has just ended.
type incident struct {
	files   map[string]string // content by path below /var/log/pods
	entries []servers.Entry
	span    time.Duration
}

func loadIncident(t *testing.T, name string) incident {
	t.Helper()
	type record struct {
		path, rest string
		at         time.Time
	}
	var records []record
	var first, last time.Time
	fsys := crowsnest.Incidents()
	require.NoError(t, fs.WalkDir(fsys, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".log") {
			return err
		}
		data, err := fs.ReadFile(fsys, path)
		for l := range strings.Lines(string(data)) {
			stamp, rest, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			require.NoError(t, err, "%s: %q", path, l)
			records = append(records, record{strings.TrimPrefix(path, name+"/"), rest, at})
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		return err
	}))
	in := incident{files: map[string]string{}, span: last.Sub(first)}
	move := time.Since(last) - time.Minute
	for _, r := range records {
		at := r.at.Add(move).UTC()
		in.files[r.path] += at.Format(time.RFC3339Nano) + " " + r.rest + "\n"
		labels, ok := kubelet.PathLabels("/var/log/pods/" + r.path)
		require.True(t, ok, r.path)
		stream, text, _ := strings.Cut(r.rest, " ")
		flag, text, _ := strings.Cut(text, " ")
		require.Equal(t, "F", flag)
		own := map[string]string{"stream": stream}
		for k, v := range labels {
			own[k] = v
		}
		in.entries = append(in.entries, servers.Entry{Time: at, Line: text, Labels: own})
	}
	return in
}

// What a replay of Loki finds is what a replay of the files finds, for every
// recorded incident and for two sets at once.
func TestReplayOfLokiEqualsFiles(t *testing.T) {
	l := servers.Loki(t, servers.LokiOptions{Auth: true})
	exec := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		c := &cli{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(string) string { return "" }}
		root := newRoot(c)
		root.SetArgs(append([]string{"replay", "-o", "json"}, args...))
		require.NoError(t, root.Execute(), errs.String())
		return out.String()
	}
	rulesOf := func(out string) string {
		t.Helper()
		var x struct {
			Rules   json.RawMessage `json:"rules"`
			Changes json.RawMessage `json:"changes"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &x))
		return string(x.Rules) + string(x.Changes)
	}
	entries, err := fs.ReadDir(crowsnest.Incidents(), ".")
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("pack: {name: other, version: 0.1.0, rules: 1}\nrules:\n- {alert: AnyLease, from: '{container=~\".+\"}', match: lease, severity: info, by: [namespace]}\n"), 0o600))
	compared, lines := 0, 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		in := loadIncident(t, e.Name())
		if in.span > 2*time.Hour+45*time.Minute {
			t.Logf("%s is longer than Loki looks into its memory", e.Name())
			continue
		}
		dir := filepath.Join(t.TempDir(), "var", "log", "pods")
		for path, text := range in.files {
			file := filepath.Join(dir, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		}
		for path, list := range byStream(in.entries) {
			l.Push(e.Name(), list...)
			require.NotEmpty(t, path)
		}
		fromLoki := []string{"--loki", l.URL, "--tenant", e.Name(), "--query", `{namespace=~".+"}`, "--since", "170m"}
		require.JSONEq(t, rulesOf(exec("--strict-labels", dir)), rulesOf(exec(fromLoki...)), e.Name())
		require.Equal(t, rulesOf(exec("--strict-labels", "--against", other, "--examples", "0", dir)), rulesOf(exec(append(fromLoki, "--against", other, "--examples", "0")...)), e.Name())
		compared++ // no examples: when an alert ends may be known of a range, and not of files that end before
		lines += len(in.entries)
	}
	t.Logf("%d incidents, %d lines: the same", compared, lines)
	require.GreaterOrEqual(t, compared, 5)
}

// byStream sorts entries by their streams.
func byStream(entries []servers.Entry) map[string][]servers.Entry {
	out := map[string][]servers.Entry{}
	for _, e := range entries {
		id := servers.LabelText(e.Labels)
		out[id] = append(out[id], e)
	}
	return out
}
