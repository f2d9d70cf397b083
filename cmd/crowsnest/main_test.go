package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleased(t *testing.T) {
	f := func(module, want string) {
		t.Helper()
		require.Equal(t, want, releaseVersion(module))
	}
	f("v1.2.3", "1.2.3")
	f("v0.2.0-rc.1", "0.2.0-rc.1")
	f("(devel)", "devel")
	f("", "devel")
	f("v0.0.0-20261123010203-0123456789ab", "devel-v0.0.0-20261123010203-0123456789ab")
	f("v1.2.4-0.20261123010203-0123456789ab", "devel-v1.2.4-0.20261123010203-0123456789ab")
	f("v1.2.3+dirty", "devel-v1.2.3+dirty")
}
