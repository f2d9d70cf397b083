package redact

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/plant"
)

// TestOrdinaryLines: nothing is hidden in lines that hold no secret, though many mention
// secrets and most have digests, UUIDs and random names.
func TestOrdinaryLines(t *testing.T) {
	r := New(nil)
	all := plant.Ordinary(rand.New(rand.NewPCG(5, 6)), 12)
	for _, pattern := range []string{"../testdata/incidents/*/*", "../testdata/incidents/*/*/*", "../../shared/corpus/real/*/*.log"} {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil {
				all = append(all, strings.Split(string(b), "\n")...)
			}
		}
	}
	require.GreaterOrEqual(t, len(all), 5000)
	changed := 0
	for _, line := range all {
		if out := r.String(line); out != line {
			changed++
			t.Errorf("\n in: %.700s\nout: %.700s", line, out)
		}
	}
	t.Logf("%d lines, %d changed", len(all), changed)
}
