package redact

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/plant"
	"crowsnest/test/traffic"
)

const fewestOrdinary = 10_000

// TestOrdinaryLines: nothing is hidden in lines that hold no secret, though many mention
// secrets and most have digests, UUIDs and random names.
func TestOrdinaryLines(t *testing.T) {
	r := New(nil)
	all := plant.Ordinary(rand.New(rand.NewPCG(5, 6)), 12)
	all = append(all, logLines(t)...)
	all = append(all, ruleTestLines(t)...)
	for _, kind := range traffic.Kinds() {
		all = append(all, strings.Split(string(traffic.Bytes(200_000, traffic.Options{Kind: kind})), "\n")...)
	}
	require.Greater(t, len(all), fewestOrdinary)
	changed := 0
	for _, line := range all {
		if out := r.String(line); out != line {
			changed++
			t.Errorf("\n in: %.700s\nout: %.700s", line, out)
		}
	}
	t.Logf("%d lines, %d changed", len(all), changed)
}

// logLines returns the lines of the recorded incidents.
func logLines(t *testing.T) (lines []string) {
	t.Helper()
	var more []string
	require.NoError(t, filepath.WalkDir("../testdata/incidents", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".log" {
			more = append(more, path)
		}
		return err
	}))
	for _, name := range more {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		lines = append(lines, strings.Split(string(b), "\n")...)
	}
	return lines
}

// ruleTestLines returns the different lines of the inline tests of the shipped rules: lines of
// hundreds of programs, in every format of a log.
func ruleTestLines(t *testing.T) (lines []string) {
	t.Helper()
	seen := map[string]bool{}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		for i, child := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "line" && child.Kind == yaml.ScalarNode {
				for line := range strings.SplitSeq(child.Value, "\n") {
					if !seen[line] {
						seen[line] = true
						lines = append(lines, line)
					}
				}
			}
			walk(child)
		}
	}
	packs, err := filepath.Glob("../rules/packs/*.yaml")
	require.NoError(t, err)
	for _, name := range packs {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(data, &root), name)
		walk(&root)
	}
	require.Greater(t, len(lines), 2500)
	return lines
}
