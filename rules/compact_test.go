package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
)

// forgetWritten removes what a load removes before Compact.
func forgetWritten(r *Rule) {
	r.Tests, r.FromAt = nil, strictyaml.Pos{}
	for _, a := range []*ClearOrUnless{r.Clear, r.Unless} {
		if a != nil {
			a.Pos = strictyaml.Pos{}
		}
	}
	for i := range r.Causes {
		r.Causes[i].Pos = strictyaml.Pos{}
	}
}

// Compacted rules are the same as before, in every field: those of the shipped packs, and those
// that use each feature of the language.
func TestCompact(t *testing.T) {
	var files []string
	for _, pattern := range []string{"packs/*.yaml", "../testdata/language/*.yaml", "../../shared/conformance/*.yaml"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	read := func() (all []*Rule) {
		for _, name := range files {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			d, _ := Parse(File{Name: name, Data: data, Released: true})
			for _, r := range d.rules {
				if r.rule != nil {
					forgetWritten(r.rule)
					all = append(all, r.rule)
				}
			}
		}
		return all
	}
	want, got := read(), read()
	require.Greater(t, len(want), 450)
	hashes := make([]string, len(want))
	for i, r := range want {
		hashes[i] = r.MatchHash()
	}
	kept := make([]*Rule, len(got))
	copy(kept, got)
	CompactRules(got)
	for i, r := range got {
		require.Same(t, kept[i], r)
		sameRule(t, want[i], r)
		require.Equal(t, hashes[i], r.MatchHash())
	}
	CompactRules(nil)
}
