// Package journald runs the real systemd-journald in a namespace of its own, without
// systemd as init. It needs root and the Debian package systemd. Tests whose machine
// lacks either are skipped, or fail if CROWSNEST_SERVERS is "required".
package journald

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crowsnest/test/child"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

const (
	patience = 30 * time.Second
	// maxDatagram is the size up to which an entry is one datagram; larger ones are passed as
	// a sealed file.
	maxDatagram = 32 << 10
)

// Options configure a journald.
type Options struct {
	// Env are variables such as SYSTEMD_JOURNAL_COMPACT=0.
	Env []string
	// Config are settings such as SystemMaxFileSize=1M. Rate limits are off.
	Config []string
	// Disk is the size of a file system of its own for the files, such as 12m; "": none.
	Disk string
}

// Server is a running journald. It is not safe for concurrent use.
type Server struct {
	// Namespace is its name; Dir has its files.
	Namespace, Dir string

	t    testing.TB
	bin  string
	opt  Options
	proc *child.Process
	conn *net.UnixConn
}

var started atomic.Int64

// Start starts one that ends with the test, which removes its files.
func Start(t testing.TB, opt Options) *Server {
	t.Helper()
	need(t)
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		t.Fatalf("start journald: %v", err)
	}
	name := fmt.Sprintf("cn%d-%d", os.Getpid(), started.Add(1))
	s := &Server{
		Namespace: name, Dir: filepath.Join("/var/log/journal", strings.TrimSpace(string(id))+"."+name),
		t: t, bin: program(), opt: opt,
	}
	config := "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nRateLimitBurst=0\n" + strings.Join(opt.Config, "\n") + "\n"
	t.Cleanup(s.remove)
	for _, dir := range []string{s.Dir, s.run(), "/etc/systemd"} {
		s.must(os.MkdirAll(dir, 0o755))
	}
	if opt.Disk != "" {
		s.must(unix.Mount("tmpfs", s.Dir, "tmpfs", 0, "size="+opt.Disk))
	}
	s.must(os.WriteFile(s.config(), []byte(config), 0o644))
	s.Launch()
	return s
}

// program returns the path of journald, "" if there is none. CROWSNEST_SYSTEMD_JOURNALD
// names another version.
func program() string {
	const packaged = "/lib/systemd/systemd-journald"
	if path := servers.Find("systemd-journald"); path != "" {
		return path
	}
	if _, err := os.Stat(packaged); err != nil {
		return ""
	}
	return packaged
}

func need(t testing.TB) {
	t.Helper()
	missing := ""
	if program() == "" {
		missing = "systemd-journald: install the package systemd"
	} else if os.Getuid() != 0 {
		missing = "root: journald runs as root only"
	}
	switch {
	case missing == "":
		servers.Program(t, "journalctl")
	case os.Getenv("CROWSNEST_SERVERS") == "required":
		t.Fatal("this test needs " + missing)
	default:
		t.Skip("this test needs " + missing)
	}
}

func (s *Server) run() string    { return "/run/systemd/journal." + s.Namespace }
func (s *Server) config() string { return "/etc/systemd/journald@" + s.Namespace + ".conf" }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("journald: %v", err)
	}
}

// Launch starts it again after Kill or Stop.
func (s *Server) Launch() {
	s.t.Helper()
	for _, socket := range []string{"dev-log", "socket", "stdout", "io.systemd.journal"} {
		_ = os.Remove(filepath.Join(s.run(), socket)) // of the one before
	}
	cmd := exec.Command(s.bin, s.Namespace)
	cmd.Env = append(os.Environ(), s.opt.Env...)
	var err error
	s.proc, err = child.Start(cmd)
	s.must(err)
	if !wait.Until(patience, func() bool { return !s.proc.Running() || s.connect() == nil }) || !s.proc.Running() {
		s.t.Fatalf("journald: not ready after %s, or ended", patience)
	}
}

func (s *Server) connect() error {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(s.run(), "socket"), Net: "unixgram"})
	s.conn = conn
	return err
}

// Kill kills it.
func (s *Server) Kill() {
	_ = s.proc.Signal(os.Kill)
	_ = s.proc.Wait()
}

// Stop ends it, so that it closes its files.
func (s *Server) Stop() { _ = s.proc.End(syscall.SIGTERM, patience) }

func (s *Server) remove() {
	if s.proc != nil {
		s.Kill()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.opt.Disk != "" {
		_ = unix.Unmount(s.Dir, unix.MNT_DETACH)
	}
	for _, path := range []string{s.Dir, s.run(), s.config()} {
		_ = os.RemoveAll(path)
	}
}

// Field is a field of an entry.
type Field struct{ Name, Value string }

// Send writes an entry. It waits while the queue of journald is full.
func (s *Server) Send(fields ...Field) error {
	b := encode(fields)
	if len(b) > maxDatagram {
		return s.sendFile(b)
	}
	_, err := s.conn.Write(b)
	return err
}

func encode(fields []Field) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, f.Name...)
		if strings.Contains(f.Value, "\n") {
			b = append(b, '\n')
			b = binary.LittleEndian.AppendUint64(b, uint64(len(f.Value)))
		} else {
			b = append(b, '=')
		}
		b = append(append(b, f.Value...), '\n')
	}
	return b
}

// sendFile passes the entry as a sealed file in memory.
func (s *Server) sendFile(b []byte) error {
	fd, err := unix.MemfdCreate("entry", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "entry")
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(to uintptr) bool {
		sent = unix.Sendmsg(int(to), nil, unix.UnixRights(int(f.Fd())), nil, 0)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, sent)
}

// Enlarge changes the size of Options.Disk.
func (s *Server) Enlarge(size string) {
	s.t.Helper()
	s.must(unix.Mount("tmpfs", s.Dir, "tmpfs", unix.MS_REMOUNT, "size="+size))
}

// Sync waits until everything that was sent is in the files.
func (s *Server) Sync() { s.ctl("--sync") }

// Rotate archives the files.
func (s *Server) Rotate() { s.ctl("--rotate") }

// Vacuum removes archived files but for some.
func (s *Server) Vacuum(keep int) { s.ctl(fmt.Sprintf("--vacuum-files=%d", keep)) }

func (s *Server) ctl(args ...string) {
	s.t.Helper()
	out, err := exec.Command("journalctl", append([]string{"--namespace=" + s.Namespace, "--quiet"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("journalctl %v: %v\n%s", args, err, out)
	}
}

// Read returns what journalctl prints with these arguments.
func (s *Server) Read(args ...string) ([]byte, error) {
	cmd := exec.Command("journalctl", append([]string{"--namespace=" + s.Namespace, "--quiet", "--no-pager"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(err, errors.New(stderr.String()))
	}
	return out, nil
}
