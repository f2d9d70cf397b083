//go:build e2e

package cli

import (
	"strings"
	"testing"

	"crowsnest/test/servers"
)

// The same with the registry that most others are built on.
func TestE2EPushVerifyPull(t *testing.T) {
	pushVerifyPull(t, strings.TrimPrefix(servers.Registry(t).URL, "http://"))
}
