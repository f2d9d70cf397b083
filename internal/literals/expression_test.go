package literals

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/codec"
)

// TestExpression compares expressions with those of package regexp.
func TestExpression(t *testing.T) {
	for _, text := range []string{
		``, `a`, `a*`, `(?:a|)`, `^$`, `\b`, `\B`, `(?P<n>a+)(b)?|c`, `(?i)kiss`, `a{0}`, `(?s:.)`, `x*y`, `^(?s:.*)$`, `[^\S\s]`, `(?:)*`,
		`(?:a*){2}`, `a{0,3}`, `a{2}`, `(?:a?){2,}`, `(?:a*)+`, `\Aa?\z`, `(?m)^$`, `a?\b`, `a?\B`, `(a|b*)c?`, `a?b?|x`,
		`*`, `(`, `a)|(b`, `(?P<n`, `\pX`, `a{1001}`,
	} {
		want, wrong := regexp.Compile(text)
		e, err := NewExpression(text)
		require.Equal(t, wrong, err, text)
		if err != nil {
			continue
		}
		require.Equal(t, want.String(), e.String())
		require.Equal(t, want.SubexpNames(), e.SubexpNames(), text)
		require.Equal(t, want.MatchString(""), e.MatchesEmpty(), text)
		require.Equal(t, want.MatchString("xaab"), e.MatchString("xaab"), text)
		require.Equal(t, want.Match([]byte("KISS")), e.Match([]byte("KISS")), text)
		require.Equal(t, want.FindSubmatchIndex([]byte("xaab")), e.FindSubmatchIndex([]byte("xaab")), text)
		a, err := json.Marshal(want)
		require.NoError(t, err)
		b, err := json.Marshal(e)
		require.NoError(t, err)
		require.Equal(t, string(a), string(b))
	}
	require.Panics(t, func() { MustExpression(`(`) })
}

// TestStoredExpression compares an expression with its stored form.
func TestStoredExpression(t *testing.T) {
	line := []byte("E1120 10:00:00 1 a.go:1] " + strings.Repeat("x", 100) + "Failed to AGGREGATE conditions: timed out")
	for _, text := range []string{`failed`, `Failed to`, `(?i)aggregate`, `Failed.*timed out`, `refused|timed out`, `timed in`, `[a-z]+`} {
		e := MustExpression(text)
		stored := MustExpression("")
		w := codec.NewWriter()
		Code(w, e)
		Code(codec.NewReader(w.Result()), stored)
		require.Equal(t, e.FindSubmatchIndex(line), stored.FindSubmatchIndex(line), text)
		end, decided := e.Required().Match(line)
		storedEnd, storedDecided := stored.Required().Match(line)
		require.Equal(t, []any{end, decided}, []any{storedEnd, storedDecided}, text)
	}
}

// TestExpressionsCompileOnceConcurrent compiles an expression from several goroutines:
// all of them use the same one.
func TestExpressionsCompileOnceConcurrent(t *testing.T) {
	e := MustExpression(`(?P<n>a+)`)
	got := make([]*regexp.Regexp, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = e.Regexp() })
	}
	wg.Wait()
	for _, re := range got {
		require.Same(t, got[0], re)
	}
}
