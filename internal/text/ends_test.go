package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestEnds(t *testing.T) {
	require.Equal(t, "abc", TruncateMiddle("abc", 3))
	require.Equal(t, "abcd", TruncateMiddle("abcdefgh", 4))
	require.Equal(t, "cannot…full", TruncateMiddle("cannot"+strings.Repeat(" x", 20)+"disk is full", 15)[:len("cannot…")]+"full")
	long := "create: " + strings.Repeat("ä", 300) + ": the disk is full"
	for n := range 80 {
		got := TruncateMiddle(long, n)
		require.LessOrEqual(t, len(got), n)
		require.Equal(t, got, TruncateMiddle(got, n))
		require.True(t, n < 8 || utf8.ValidString(got))
	}
	require.True(t, strings.HasSuffix(TruncateMiddle(long, 60), ": the disk is full"))
}
