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
	f(`\u0022 \u005c \u000a \u00e9 \u00 \uzzzz \u`, `\u0022 \u005c \u000a \u00e9 \u00 \uzzzz \u`)
	f(`pass\u200bword \u202e`, `password `)
}
