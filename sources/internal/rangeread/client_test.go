package rangeread

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A large response takes little more memory than its limit.
func TestReadAll(t *testing.T) {
	const most = 3 << 20
	b, err := readAll(bytes.NewReader(make([]byte, 2*most)), nil, most)
	require.NoError(t, err)
	require.Len(t, b, most+1)
	require.LessOrEqual(t, cap(b), most+most/2+1)
}

func TestShortenMessage(t *testing.T) {
	require.True(t, utf8.ValidString(shortenMessage("\xff\x00"+strings.Repeat("é", 400))))
}
