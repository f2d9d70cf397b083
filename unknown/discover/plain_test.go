package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyslogIdentifier(t *testing.T) {
	require.Equal(t, "kubelet", SyslogIdentifier("Feb 12 08:15:05 worker-3 kubelet[4711]: cannot start"))
	require.Equal(t, "kernel", SyslogIdentifier("Feb 12 08:15:05 worker-3 kernel: out of memory"))
	require.Empty(t, SyslogIdentifier("Feb 12 08:15:05 something went wrong: really"))
	require.Empty(t, SyslogIdentifier("E0101 10:00:00.0 1 a.go:1] x: y"))
}
