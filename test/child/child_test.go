package child

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProcess(t *testing.T) {
	p, err := Start(exec.Command("sleep", "3600"))
	require.NoError(t, err)
	require.True(t, p.Running())
	require.NoError(t, p.Signal(syscall.Signal(0)))
	if runtime.GOOS == "linux" {
		require.Positive(t, p.Memory("VmHWM"))
		require.Zero(t, p.Memory("VmNothing"))
		_, err := p.CPU()
		require.NoError(t, err)
		all, deleted := p.Descriptors()
		require.Positive(t, all)
		require.Zero(t, deleted)
	}
	require.ErrorContains(t, p.End(syscall.SIGTERM, time.Minute), "terminated")
	require.False(t, p.Running())
	require.Error(t, p.Wait())
	require.Error(t, p.Signal(syscall.SIGTERM))
	require.GreaterOrEqual(t, p.Used(), time.Duration(0))
	require.Zero(t, p.Memory("VmHWM"))
	_, err = p.CPU()
	require.Error(t, err)
}

// A process that ignores the signal is killed.
func TestStubborn(t *testing.T) {
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo; exec sleep 3600`)
	cmd.Stdout = in
	p, err := Start(cmd)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	require.ErrorContains(t, p.End(syscall.SIGTERM, time.Millisecond), "killed")
}

func TestNotThere(t *testing.T) {
	_, err := Start(exec.Command("/nonexistent/program"))
	require.Error(t, err)
	p, err := Start(exec.Command("true"))
	require.NoError(t, err)
	<-p.Done()
	require.NoError(t, p.Wait())
}

func TestField(t *testing.T) {
	const status = "Name:\tVmHWM:\nVmHWM:\t    1234 kB\nVmRSS:\t 99 kB\n"
	require.EqualValues(t, 1234, field(status, "VmHWM:"))
	require.EqualValues(t, 99, field(status, "VmRSS:"))
	require.EqualValues(t, 77, field("rchar: 77\nwchar: 88\n", "rchar:"))
}

func TestFreePort(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := FreePort()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
	}
	for port := range seen {
		l, err := net.Listen("tcp", Address(port))
		require.NoError(t, err)
		l.Close()
		break
	}
}
