package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/test/madeup"
)

// A new kind of source and a new kind of sink need one entry each: they run, are on the
// pages and in the metrics, and losses have their texts.
func TestMadeUpKinds(t *testing.T) {
	s := newShip(t)
	lines := filepath.Join(s.dir, "lines")
	require.NoError(t, os.WriteFile(lines, []byte("text of a\n"), 0o600))
	s.cfg = func(c *config.Config) {
		c.Global.ExternalURL = "https://pages.example.org"
		c.Sources.Kinds = append(c.Sources.Kinds, madeup.Tape())
		c.Sources.Add(&madeup.TapeConfig{LinesFile: lines, Labels: map[string]string{"container": "syncer", "namespace": "n"}})
		c.Sinks.Kinds = append(c.Sinks.Kinds, madeup.Bell())
		c.Sinks.Add(&madeup.BellConfig{Volume: 3})
	}
	s.start()
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the line on the tape is an alert")
	lost := s.notified("CrowsnestLinesLost")
	require.Equal(t, "tape", lost.Labels["source"])
	require.Contains(t, lost.Annotations["description"], "the tape is torn")
	require.Equal(t, "Glue it.", lost.Annotations["remediation"])
	for _, sink := range s.d.sinks {
		if sink.Name() == "bell" {
			s.eventually(func() bool { return sink.Status()[0].Sent >= 2 }, "the bell rings")
		}
	}
	for path, want := range map[string][]string{
		"/sources": {"tape"},
		"/status":  {"bell:", "volume: 3", "tape:", "lines_file", "https://pages.example.org"},
		"/metrics": {`crowsnest_source_lines_total{source="tape"}`, `sink="bell"`},
	} {
		code, body := s.get(path)
		require.Equal(t, http.StatusOK, code)
		body = regexp.MustCompile("<[^>]*>").ReplaceAllString(body, "") // the page colours the configuration
		for _, text := range want {
			require.Contains(t, body, text, path)
		}
	}
}
