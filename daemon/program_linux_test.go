package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only mappings of the program that equal its file are released: not its data, nor what
// was relocated, nor other files.
func TestProgramMappings(t *testing.T) {
	const smaps = `00400000-00500000 r-xp 00000000 fd:00 12 /opt/crows nest
Size:               1024 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
00500000-00600000 r--p 00100000 fd:00 12 /opt/crows nest
Anonymous:             0 kB
00600000-00700000 r--p 00200000 fd:00 12 /opt/crows nest
Anonymous:             4 kB
00700000-00800000 rw-p 00300000 fd:00 12 /opt/crows nest
Anonymous:             0 kB
00800000-00900000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000100000 r-xp 00000000 fd:00 13 /lib/libc.so
Anonymous:             0 kB
`
	list, err := programMappings(strings.NewReader(smaps), "/opt/crows nest")
	require.NoError(t, err)
	require.Equal(t, []mapping{{0x400000, 0x500000}, {0x500000, 0x600000}}, list)

	list, err = programMappings(strings.NewReader(smaps), "/opt/other")
	require.NoError(t, err)
	require.Empty(t, list)
}

// A program continues after the release, with less of it in memory.
func TestReleaseProgram(t *testing.T) {
	resident := func() (text string) {
		all, err := os.ReadFile("/proc/self/status")
		require.NoError(t, err)
		for line := range strings.Lines(string(all)) {
			if strings.HasPrefix(line, "RssFile:") {
				text = strings.TrimSpace(line)
			}
		}
		return text
	}
	before := resident()
	require.NoError(t, ReleaseProgram())
	require.NotEqual(t, before, resident())
}
