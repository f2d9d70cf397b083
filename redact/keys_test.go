package redact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClassify: each word of a class makes a key of that class, in any case and behind a prefix.
func TestClassify(t *testing.T) {
	table := newKeyTable()
	for list, class := range map[string]keyClass{
		"header": headerKey, "strong": strongKey, "weak": weakKey,
		"strongWord": strongKey, "maybeWord": maybeKey, "authWord": authKey, "queryWord": queryKey,
	} {
		for w := range words(list) {
			want := class
			if w == "key" { // behind a prefix
				want = maybeKey
			}
			require.Equal(t, want, table.classify("x_"+w), w)
			require.Equal(t, want, table.classify("DB-"+strings.ToUpper(w)), w)
		}
	}
	require.Equal(t, strongKey, table.classify("passwordHash"))
	require.Equal(t, strongKey, table.classify("password_base64"))
	require.Equal(t, loginKey, table.classify("ETCDCTL_USER"))
	require.Equal(t, noKey, table.classify("bypass"))
	require.Equal(t, noKey, table.classify("cluster"))
}
