//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/servers"
	"crowsnest/test/traffic"
)

// store counts what a Loki scans for queries and what leaves it.
type store struct {
	queries, left, scanned, lines atomic.Int64
}

// count reads the statistics of an answer of Loki.
func (s *store) count(r *http.Response) error {
	if filepath.Base(r.Request.URL.Path) != "query_range" {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var in struct {
		Data struct {
			Stats struct {
				Summary struct {
					Bytes int64 `json:"totalBytesProcessed"`
					Lines int64 `json:"totalLinesProcessed"`
				} `json:"summary"`
			} `json:"stats"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &in) == nil {
		s.queries.Add(1)
		s.left.Add(int64(len(body)))
		s.scanned.Add(in.Data.Stats.Summary.Bytes)
		s.lines.Add(in.Data.Stats.Summary.Lines)
	}
	return nil
}

// How much leaves Loki against how much it scans, when replay pushes the texts of all
// shipped rules down into LogQL: most of what is scanned must stay there.
func TestMostLinesStayInLoki(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "crowsnest")
	require.NoError(t, daemon.Build(binary))
	l := servers.Loki(t, servers.LokiOptions{Args: []string{
		"-distributor.ingestion-rate-limit-mb=500", "-distributor.ingestion-burst-size-mb=500", "-ingester.per-stream-rate-limit=500MB", "-ingester.per-stream-rate-limit-burst=500MB",
	}})
	pushed := fill(t, l, 30<<20)
	for name, args := range map[string][]string{"all shipped rules": nil, "one pack": {"--rules", "../../rules/packs/csi.yaml"}} {
		s := replayed(t, binary, l.URL, args)
		require.NotZero(t, s.queries.Load())
		require.GreaterOrEqual(t, s.scanned.Load(), pushed)
		t.Logf("%s: %.1f MB of lines in Loki; %d queries scanned %.1f MB in %d lines, and %.2f MB left it: %.1f %% of what was scanned", name, float64(pushed)/1e6,
			s.queries.Load(), float64(s.scanned.Load())/1e6, s.lines.Load(), float64(s.left.Load())/1e6, 100*float64(s.left.Load())/float64(s.scanned.Load()))
		require.Less(t, s.left.Load(), s.scanned.Load()/2)
	}
}

// replayed runs replay with some rules through a proxy that counts.
func replayed(t *testing.T, binary, loki string, args []string) *store {
	t.Helper()
	to, err := url.Parse(loki)
	require.NoError(t, err)
	s := &store{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = s.count
	front := httptest.NewServer(proxy)
	defer front.Close()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"replay", "--loki", front.URL, "--query", `{namespace=~".+"}`, "--since", "30m"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return s
}

// fill pushes about n bytes of lines of controllers, and returns how many.
func fill(t *testing.T, l *servers.LokiServer, n int) (pushed int64) {
	t.Helper()
	at := time.Now().Add(-20 * time.Minute)
	var batch []servers.Entry
	for i, line := range bytes.Split(traffic.Bytes(n, traffic.Options{}), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		pushed += int64(len(line))
		labels := map[string]string{"namespace": "kube-system", "pod": fmt.Sprintf("controller-%d", i/2000%10), "container": "manager"}
		batch = append(batch, servers.Entry{Time: at.Add(time.Duration(i) * 2 * time.Millisecond), Line: string(line), Labels: labels})
		if len(batch) == 2000 {
			l.Push("", batch...)
			batch = nil
		}
	}
	if len(batch) > 0 {
		l.Push("", batch...)
	}
	return pushed
}
