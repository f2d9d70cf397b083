package hits

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
)

const versionOne = "sha256:1111111111111111111111111111111111111111111111111111111111111111"

// versionOf returns a rule named A as a version has it; "": in force.
func versionOf(digest string) *rules.Rule {
	r := &rules.Rule{Alert: "A", Hash: "aa", Mode: rules.ModeOn, Count: 1, Steps: make([]rules.Step, 1)}
	if digest != "" {
		r.Hash = ShadowHash(digest, "bb")
	}
	return r
}

// Every hit of a batch belongs to exactly one version, in reading order.
func TestHitsOfTwoVersionsAreSeparated(t *testing.T) {
	digests := []string{"", versionOne, strings.Replace(versionOne, "1", "2", 1)}
	rapid.Check(t, func(t *rapid.T) {
		versions := map[string]*rules.Rule{}
		for _, d := range digests {
			versions[d] = versionOf(d)
		}
		var b Builder
		want := map[string][]uint64{}
		for id, d := range rapid.SliceOfN(rapid.SampledFrom(digests), 1, 80).Draw(t, "versions") {
			b.Add(&matcher.Hit{Rule: versions[d], Line: "a line", ID: uint64(id), Labels: matcher.Labels{"pod": "p"}})
			want[d] = append(want[d], uint64(id))
		}
		batch, err := new(Decoder).Decode(b.Seal())
		require.NoError(t, err)
		for _, d := range digests {
			require.Equal(t, len(want[d]) > 0, batch.Shadows(d))
			found, out := batch.Find(NewIndex(&rules.Set{Rules: []*rules.Rule{versions[d]}, Shadow: d}))
			var got []uint64
			for _, h := range found {
				got = append(got, h.ID)
				require.Same(t, versions[d], h.Rule)
			}
			require.Equal(t, want[d], got)
			require.Empty(t, out.Dropped)
			require.Zero(t, out.Other)
		}
		payload, n := batch.Unknown(NewIndex(&rules.Set{}))
		require.Equal(t, len(want[""]), n, "hits of a shadow are not held")
		require.Equal(t, n > 0, payload != nil)
	})
}

func TestReportsOfShadowsAreChecked(t *testing.T) {
	f := func(ok bool, state ShadowState) {
		t.Helper()
		body, _ := (&Report{Node: "n1", Instance: "i1", Shadow: &state}).Seal()
		r, err := ReadReport(body)
		if !ok {
			require.ErrorContains(t, err, "is not a version of packs")
			return
		}
		require.NoError(t, err)
		require.NotContains(t, r.Shadow.Error, "\n")
		require.LessOrEqual(t, len(r.Shadow.Error), maxDetail)
	}
	f(true, ShadowState{Digest: versionOne, Rules: RulesDigest(map[string]string{"A": "aa"})})
	f(true, ShadowState{Digest: versionOne, Error: strings.Repeat("a\n", 1000)})
	f(false, ShadowState{Digest: "sha256:1", Rules: "1"})
	f(false, ShadowState{Digest: versionOne + "/x"})
	f(false, ShadowState{Digest: versionOne, Rules: strings.Repeat("a", 14)})
	f(false, ShadowState{Digest: versionOne, Rules: "<b>"})
}

// A shadow costs nothing where there is none.
func TestReportWithoutShadowIsUnchanged(t *testing.T) {
	body, _ := (&Report{Node: "n1", Instance: "i1", Rules: map[string]string{"A": "1f"}}).Seal()
	require.JSONEq(t, `{"node":"n1","instance":"i1","rules":{"A":"1f"}}`, string(body))
	require.NotEqual(t, RulesDigest(map[string]string{"A": "1"}), RulesDigest(map[string]string{"A": "2"}))
}
