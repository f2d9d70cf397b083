package clean

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnescape(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		require.Equal(t, want, Unescape(in))
	}
	f(`a`, `a`)
	f(`\u003ca\u003E\\u0026b\\\\u003d`, `<a>&b=`)
	f(`\u005c \u00e9 \u00 \uzzzz \u \x \x2 \xzz \`, `\u005c \u00e9 \u00 \uzzzz \u \x \x2 \xzz \`)
	f(`{\u0022a\u0022:\u000a`, "{\\\"a\\\":\n")
	f(`{\x22a\x5C\x22:\x0A\xE2\x86\x92`, "{\"a\\\":\n→")
	f(`pass\u200bword \u202e`, `password `)
}
