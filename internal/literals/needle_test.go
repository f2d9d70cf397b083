package literals

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzNeedle: a needle finds what a walk over all places finds.
func FuzzNeedle(f *testing.F) {
	f.Add("E1120 \"Reconciler error\" err=\"x\"", "Reconciler error")
	f.Add(strings.Repeat("R", 100)+"Re", "Re")
	f.Add(strings.Repeat("aK", 50), "ak")
	f.Add("kKk\xffs", "k\xff")
	f.Add("abc", "")
	f.Add("", "a")
	f.Fuzz(func(t *testing.T, line, text string) {
		n := NewNeedle(Text{Text: text})
		require.Equal(t, text, n.String())
		require.Equal(t, strings.Index(line, text), n.Index([]byte(line)))
		lower := []byte(text)
		for i, c := range lower {
			if 'A' <= c && c <= 'Z' {
				lower[i] = c + 'a' - 'A'
			}
		}
		want := -1
		for i := 0; i+len(lower) <= len(line) && want < 0; i++ {
			if EqualFold([]byte(line[i:i+len(lower)]), lower) {
				want = i
			}
		}
		folded := NewNeedle(Text{string(lower), true})
		require.Equal(t, want, folded.Index([]byte(line)))
	})
}

func BenchmarkNeedle(b *testing.B) {
	line := []byte(`E1120 10:00:00.001957       1 handler.go:159] "Failed to aggregate conditions" err="the server has asked for the client to provide credentials" controller="machinepool" controllerKind="MachinePool" MachinePool="team-red/turin" namespace="team-red" name="turin" reconcileID="a9e9114c-42f3-4f04-a621-14bea3915eb7"`)
	for _, t := range []Text{{"Reconciler error", false}, {"error syncing", false}, {"reconciler error", true}, {"timed out", false}} {
		n := NewNeedle(t)
		b.Run("needle/"+t.Text, func(b *testing.B) {
			for b.Loop() {
				n.Index(line)
			}
		})
		b.Run("bytes/"+t.Text, func(b *testing.B) {
			for b.Loop() {
				bytes.Index(line, n.text)
			}
		})
	}
}
