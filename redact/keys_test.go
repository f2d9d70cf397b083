package redact

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"crowsnest/redact/internal/keys"
)

// TestMayBeKey: the quick check never rejects a key that the full check finds.
func TestMayBeKey(t *testing.T) {
	r := New(nil)
	words := append(keys.Words(), "value", "API", "Unseal")
	words = append(words, "n", "y", "b", "1", "23", "_", "-", ".", " ", "  ", "\t", `"`, `'`, `\`, `\n`, `\"`, "Name", "DB", ")", "/", "name: x,")
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for _, w := range rapid.SliceOfN(rapid.SampledFrom(words), 0, 8).Draw(t, "words") {
			switch rapid.IntRange(0, 3).Draw(t, "case") {
			case 0:
				w = strings.ToUpper(w)
			case 1:
				w = strings.ToUpper(w[:min(1, len(w))]) + w[min(1, len(w)):]
			}
			b.WriteString(w)
		}
		s := b.String() + "=x"
		sc := new(scanner)
		sc.start(r, s, 0)
		i := len(s) - 2
		if k := sc.keyBefore(i); k.class != keys.None && !sc.mayBeKey(i) {
			t.Fatalf("%q is a key of class %d", s, k.class)
		}
	})
}
