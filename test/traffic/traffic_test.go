package traffic

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Figures of different days are about the same bytes. To change the bytes,
// increase Version and measure again.
func TestBytes(t *testing.T) {
	f := func(want string, b []byte) {
		t.Helper()
		require.Equal(t, want, fmt.Sprintf("%.8x", sha256.Sum256(b)))
	}
	require.Equal(t, "1", Version)
	f("edce35b7adce0cbc", Bytes(1e6, Options{Kind: Mix}))
	f("22b4ed4d30f3441a", Bytes(1e6, Options{Kind: CRI}))
	f("87a8821c23c57ab6", Bytes(1e6, Options{Kind: Storm}))
	f("4b162d05a7e3d22e", Bytes(1e6, Options{Kind: JSON}))
	f("c6cf6b9d35cfa42f", Bytes(1e6, Options{Kind: Published}))
	f("c322f91d0535f853", Pack("p", Rules(MaxRules)))
	f("c75d1e1d7314a726", Hyperscan(Rules(MaxRules)))
	f("fb12a586cb60853a", Mtail(Rules(MaxRules)))
	f("dfe30dc245dd232d", SEC(Rules(MaxRules)))
	f("98671e79debc6919", Ripgrep(Rules(MaxRules)))
	f("a607e3b803505d7a", Pack("p", PublishedRules()))
}

func TestSeedsAndSizes(t *testing.T) {
	a, b := Bytes(1e5, Options{Kind: CRI}), Bytes(1e5, Options{Kind: CRI, Seed: 1})
	require.NotEqual(t, a, b)
	require.Equal(t, a, Bytes(1e5, Options{Kind: CRI}))
	require.True(t, bytes.HasPrefix(Bytes(2e5, Options{Kind: CRI}), a), "a longer log begins like a shorter one")
	require.Empty(t, Bytes(0, Options{}))
	require.ErrorContains(t, Write(nil, 1, Options{Kind: "xml"}), "there is no kind")
}

func TestParseSize(t *testing.T) {
	f := func(in string, want int64) {
		t.Helper()
		n, err := ParseSize(in)
		if want < 0 {
			require.ErrorContains(t, err, "is not a size")
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	f("7", 7)
	f("3KB", 3000)
	f("100MB", 1e8)
	f("1GB", 1e9)
	f("", -1)
	f("-1", -1)
	f("1.5GB", -1)
	f("99999999999GB", -1)
}

// The rules have the documented forms.
func TestRules(t *testing.T) {
	rules := Rules(MaxRules)
	require.Len(t, rules, MaxRules)
	texts, captures, short := 0, 0, 0
	seen := map[string]bool{}
	token := regexp.MustCompile(`^[A-Z][a-z]+[A-Z][a-z]+`)
	for i, r := range rules {
		if i+1 != r.ID || seen[r.Regexp()] || strings.Contains(r.Bare(), "?P") {
			require.Fail(t, "wrong number, twice, or with names", "%d %s", i, r.Regexp())
		}
		seen[r.Regexp()] = true
		switch {
		case r.Text != "":
			texts++
		case strings.Contains(r.Expr, "(?P<") && !strings.Contains(r.Expr, "|") || strings.Contains(r.Expr, "waited"):
			captures++
		}
		if word := token.FindString(r.Regexp()); word != "" && len(word) <= 14 {
			short++
		}
	}
	require.InDelta(t, 0.50, float64(texts)/MaxRules, 0.01)
	require.InDelta(t, 0.35, float64(captures)/MaxRules, 0.02)
	require.InDelta(t, 0.20, float64(short)/MaxRules, 0.01)
	for i, r := range Rules(100) {
		require.Equal(t, rules[i].Regexp(), r.Regexp())
	}
	require.Len(t, Rules(3), 3)
}

func TestPublishedRules(t *testing.T) {
	var n []int
	for _, r := range PublishedRules() {
		require.NotEmpty(t, r.Text)
		n = append(n, len(r.Text))
	}
	below := func(bytes int) float64 {
		return float64(len(slices.DeleteFunc(slices.Clone(n), func(l int) bool { return l >= bytes }))) / float64(len(n))
	}
	for _, c := range lengths {
		require.InDelta(t, float64(c.share)/1000, below(c.below), 0.005, "shorter than %d", c.below)
	}
	require.Equal(t, 3, slices.Min(n))
	require.LessOrEqual(t, slices.Max(n), 60)
}

// Each rule matches its sample.
func TestSamples(t *testing.T) {
	d := newDice(7)
	for _, r := range slices.Concat(Rules(1000), PublishedRules()) {
		text := r.appendSample(nil, d)
		require.True(t, regexp.MustCompile(r.Regexp()).Match(text), "%s: %s", r.Regexp(), text)
		require.False(t, bytes.ContainsAny(text, `"\`), "%s", text)
	}
}

// Near misses and normal lines match nothing.
func TestNothingElseMatches(t *testing.T) {
	g := newWriter(Options{})
	var b []byte
	for range 20 {
		b = append(g.nearMiss(b), '\n')
	}
	for range 20 {
		g.entry.ordinary(g.d)
		b = append(g.entry.render(b, g.d.layout(mixed), g.now), '\n')
	}
	require.Empty(t, Count(b, Rules(1000)).Joined)
}

// A log has lines of the documented length and shares.
func TestShares(t *testing.T) {
	f := func(opt Options, rules []Rule, matching, per float64) {
		t.Helper()
		log := Bytes(1e6, opt)
		c := Count(log, rules)
		var n int64
		for _, k := range c.Joined {
			n += k
		}
		require.InEpsilon(t, matching, float64(n)/float64(c.Lines), 0.35, "%s: lines that match", opt.Kind)
		require.InEpsilon(t, per, float64(len(log))/float64(c.Lines), 0.1, "%s: bytes a line", opt.Kind)
	}
	f(Options{Kind: Mix, Rules: 5}, Rules(5), 0.01, 340)
	f(Options{Kind: CRI, Rules: 5}, Rules(5), 0.01, 370)
	f(Options{Kind: Storm, Rules: 5}, Rules(5), 0.9, 410)
	f(Options{Kind: JSON, Rules: 5}, Rules(5), 0.01, 390)
	f(Options{Kind: JSON, Rules: 5, Match: 0.2}, Rules(5), 0.2, 390)
	require.Positive(t, bytes.Count(Bytes(1e6, Options{Kind: CRI}), []byte("Z stderr P ")))
	require.Positive(t, bytes.Count(Bytes(1e6, Options{Kind: CRI}), []byte("Z stdout P ")))
	require.InDelta(t, 0.9, share(Bytes(1e6, Options{Kind: JSON}), ` F {`), 0.02)
	require.InDelta(t, 0.06, float64(len(publishedMatches(t)))/float64(bytes.Count(Bytes(3e5, Options{Kind: Published}), []byte("\n"))), 0.02)
}

func share(log []byte, of string) float64 {
	return float64(bytes.Count(log, []byte(of))) / float64(bytes.Count(log, []byte("\n")))
}

func publishedMatches(t *testing.T) []string {
	t.Helper()
	var out []string
	for name, n := range Count(Bytes(3e5, Options{Kind: Published}), PublishedRules()).Joined {
		out = append(out, slices.Repeat([]string{name}, int(n))...)
	}
	return out
}

func TestCount(t *testing.T) {
	rules := []Rule{{ID: 1, Name: "T", Text: "needle"}, {ID: 2, Name: "E", Expr: `n(?P<x>e+)dle \d`}}
	f := func(log string, joined, physical, any int64) {
		t.Helper()
		c := Count([]byte(log), rules)
		require.Equal(t, joined, c.Joined["T"], "joined")
		require.Equal(t, physical, c.Physical["T"], "physical")
		require.Equal(t, any, c.AnyPhysical, "any")
	}
	stamp := "2026-11-20T10:00:00.000000001Z "
	f("", 0, 0, 0)
	f("a needle\nno\nneedle needle\n", 2, 2, 2)
	f("needle", 1, 1, 1)
	f(stamp+"stderr F a needle\n", 1, 1, 1)
	f(stamp+"stderr P a nee\n"+stamp+"stderr F dle 5\n", 1, 0, 0)
	f(stamp+"stderr P a nee\n"+stamp+"stdout F dle\n"+stamp+"stderr F dle 5\n", 1, 0, 0)
	f(stamp+"stderr P needle\n"+stamp+"stderr F needle\n", 1, 2, 2)
	f(stamp+"stderr P needle\n", 1, 1, 1)
	f(strings.Repeat("x", MaxLine-6)+"needle\n", 1, 1, 1)
	f(strings.Repeat("x", MaxLine-5)+"needle\n", 0, 1, 1)
	f(stamp+"stderr P "+strings.Repeat("x", MaxLine-5)+"\n"+stamp+"stderr F needle\n", 0, 1, 1)
	c := Count([]byte("neeedle 4\nneedle 3\n"), rules)
	require.Equal(t, map[string]int64{"T": 1, "E": 2}, c.Joined)
	require.Equal(t, int64(2), c.AnyPhysical)
}

// The differences caused by partial lines appear in the partial lines alone.
func TestParts(t *testing.T) {
	rules := Rules(10)
	f := func(opt Options) {
		t.Helper()
		opt.Match = 0.9
		log := Bytes(1e6, opt)
		all, parts := Count(log, rules), Count(Parts(log), rules)
		differs := false
		for _, r := range rules {
			want := all.Joined[r.Name] - all.Physical[r.Name]
			require.Equal(t, want, parts.Joined[r.Name]-parts.Physical[r.Name], r.Name)
			differs = differs || want != 0
		}
		require.True(t, differs)
		require.Less(t, len(Parts(log)), len(log)/5)
	}
	f(Options{Kind: CRI, Rules: 10})
	f(Options{Kind: Storm, Rules: 10})
	f(Options{Kind: Mix, Rules: 10})
	require.Empty(t, Parts(nil))
}

func TestWriteRules(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, WriteRules(dir, Rules(1500)))
	files, err := filepath.Glob(filepath.Join(dir, packDir, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	name := filepath.Join(dir, "x.log")
	require.NoError(t, WriteFile(name, 1000, Options{}))
	require.Error(t, WriteFile(filepath.Join(dir, "no", "x.log"), 1000, Options{}))
}
