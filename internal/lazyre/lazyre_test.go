package lazyre_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/lazyre"
)

func TestRegexp(t *testing.T) {
	r := lazyre.New(`(a+)(b)`)
	require.Equal(t, `(a+)(b)`, r.String())
	require.True(t, r.Match([]byte("xaab")))
	require.False(t, r.MatchString("ba"))
	require.Equal(t, "aab", r.FindString("xaab"))
	require.Equal(t, []int{1, 4}, r.FindStringIndex("xaab"))
	require.Equal(t, []string{"aab", "aa", "b"}, r.FindStringSubmatch("xaab"))
	require.Equal(t, [][]int{{0, 2}, {2, 4}}, r.FindAllStringIndex("abab", -1))
	require.Equal(t, [][]string{{"ab", "a", "b"}}, r.FindAllStringSubmatch("abab", 1))
	require.Equal(t, "xab", r.ReplaceAllString("ab", "x$1$2"))
	require.Equal(t, "x$1", r.ReplaceAllLiteralString("ab", "x$1"))
	require.Equal(t, "<ab>", r.ReplaceAllStringFunc("ab", func(s string) string { return "<" + s + ">" }))
	require.Equal(t, "aab", string(r.Find([]byte("xaab"))))
	require.Equal(t, []int{1, 4}, r.FindIndex([]byte("xaab")))
	require.Equal(t, [][]byte{[]byte("aab"), []byte("aa"), []byte("b")}, r.FindSubmatch([]byte("xaab")))
	require.Len(t, r.FindAllSubmatch([]byte("abab"), -1), 2)
	require.Equal(t, "x$1", string(r.ReplaceAllLiteral([]byte("ab"), []byte("x$1"))))
	require.Equal(t, "<ab>", string(r.ReplaceAllFunc([]byte("ab"), func(b []byte) []byte { return slices.Concat([]byte("<"), b, []byte(">")) })))
	require.Equal(t, 1, lazyre.New(`(?P<n>a)`).SubexpIndex("n"))
	require.Panics(t, func() { lazyre.New("(").MatchString("") })
}
