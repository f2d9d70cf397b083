package monitor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
)

// Every name of an alert in the code has a series, so that a rule of Prometheus can
// compare it with 0.
func TestEveryAlertIsCounted(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	want := map[string]int64{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`"(Crowsnest\w+)"`).FindAllStringSubmatch(string(text), -1) {
			want[m[1]] = 0
		}
	}
	require.Greater(t, len(want), 15)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := New(start, blindAfter)
	require.Equal(t, want, a.Counts())

	a.Update(start, State{Sources: []sources.Status{{Name: "kubelet", Up: true, Opened: true, Watermark: start}}})
	want[alertHeartbeat] = 1
	require.Equal(t, want, a.Counts())
}
