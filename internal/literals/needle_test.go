package literals

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// walk returns what Index returns, by a comparison at each place.
func walk(text Text, line string) int {
	for i := range len(line) - len(text.Text) + 1 {
		found := []byte(line[i : i+len(text.Text)])
		if string(found) == text.Text || text.Fold && EqualFold(found, text.Text) {
			return i
		}
	}
	return -1
}

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
		for _, text := range []Text{{Text: text}, {lowerASCII(text), true}} {
			n := NewNeedle(text)
			require.Equal(t, walk(text, line), n.Index([]byte(line)))
		}
	})
}

// A text is found wherever it is and the line ends.
func TestNeedlePlaces(t *testing.T) {
	requireSame := func(text Text, line string) {
		n := NewNeedle(text)
		require.Equal(t, walk(text, line), n.Index([]byte(line)), "%v in %q", text, line)
	}
	for _, text := range []Text{{"ab", false}, {"ab", true}, {"reconciler_1", true}, {"aaa", false}, {"aaa", true}, {"q", true}, {"x\x80é", true}, {"[_]", true}} {
		for before := range 140 {
			for _, after := range []string{"", "a", strings.Repeat("z", 70)} {
				for _, form := range []string{text.Text, strings.ToUpper(text.Text), text.Text[1:], "\r" + text.Text} {
					requireSame(text, strings.Repeat(".", before)+form+after)
					requireSame(text, strings.Repeat(text.Text[:1], before)+form+after)
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	draw := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abAB_\x7f@`[{\x80\x00"[r.IntN(12)]
		}
		return string(b)
	}
	for range 50_000 {
		text := Text{Text: draw(1 + r.IntN(5)), Fold: r.IntN(2) == 0}
		if text.Fold {
			text.Text = lowerASCII(text.Text)
		}
		requireSame(text, draw(r.IntN(200)))
	}
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
