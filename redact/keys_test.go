package redact

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMayBeKey: the quick check never rejects a key that the full check finds.
func TestMayBeKey(t *testing.T) {
	r := New(nil)
	all := []string{"value", "API", "Unseal"}
	for _, list := range strings.Fields("harmlessKey header strong weak strongWord maybeWord authWord queryWord qualifier otherEnd") {
		all = slices.AppendSeq(all, maps.Keys(words(list)))
	}
	slices.Sort(all)
	all = append(all, "n", "y", "b", "1", "23", "_", "-", ".", " ", "  ", "\t", `"`, `'`, `\`, `\n`, `\"`, "Name", "DB", ")", "/", "name: x,")
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for _, w := range rapid.SliceOfN(rapid.SampledFrom(all), 0, 8).Draw(t, "words") {
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
		if k := sc.keyBefore(i); k.class != noKey && !sc.mayBeKey(i) {
			t.Fatalf("%q is a key of class %d", s, k.class)
		}
	})
}
