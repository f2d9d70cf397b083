package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/fakeam"
	"crowsnest/test/setclock"
	"crowsnest/test/wait"
)

// The clock of the machine is repeatedly set by an hour, and with it the times
// in the logs, while the Alertmanagers' clocks stay correct: every alert is
// notified once, none flaps, and none is refused.
func TestClockIsSet(t *testing.T) {
	onlyLong(t)
	clock := newMachineClock(t)
	l := load{perSecond: 200, pad: 180, maxSize: 1 << 20, planted: 500, period: 1000, recovery: 18 * time.Second, clock: clock.Now}
	s := newScene(t, seed(t), options{writers: 4, load: l, pager: true, resend: 5 * time.Second, shipped: true})
	s.p.Prepare = clock.of
	s.p.start()
	s.p.ready()
	pause(3 * time.Second)
	for i, by := range []time.Duration{-1, 1, 1, -1, -1, 1, 1, -2, 2, -1, -1, 1} {
		clock.set(by * time.Hour)
		t.Logf("%s step %d: set by %d h, ahead %v", stamp(time.Now()), i, by, clock.Ahead())
		pause(time.Duration(2+3*(i%3)) * time.Second)
		switch i {
		case 4:
			s.p.term()
			s.p.start()
			s.p.ready()
		case 8: // an hour ahead
			s.p.kill()
			clock.set(-time.Hour) // while the daemon is down
			s.p.start()
			s.p.ready()
			pause(3 * time.Second)
			clock.set(time.Hour)
			pause(3 * time.Second)
		}
	}
	s.p.ready()
	good, bad := s.settle(60*time.Second, nil)
	v := verdict{}
	s.led.courses(v, "good", good)
	s.led.courses(v, "bad", bad)
	if s.pager != nil {
		wait.Until(15*time.Second, func() bool {
			v := verdict{}
			s.led.notified(v, s.pager.hook.States())
			return len(v) == 0
		})
		s.led.notified(v, s.pager.hook.States())
	}
	timesHold(v, "good", s.good.AM)
	timesHold(v, "bad", s.bad.AM)
	v.fail(t)
	for name, n := range s.p.newest() {
		if strings.HasPrefix(name, "crowsnest_notifications_failed_total") {
			require.Zero(t, n, name)
		}
	}
	s.report(good, bad)
	if t.Failed() {
		t.Logf("the end of the daemon's log:\n%s", s.logEnd(25))
	}
}

// courses compares the notifications with the plan, except for the times.
func (l *ledger) courses(v verdict, name string, got map[string]*heard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.plants {
		want := p.history()
		notified := ""
		if h := got[key]; h != nil {
			notified = h.states
		}
		if notified != want {
			v.add("notified wrongly", "%s: %s: %q instead of %q; %s, %s, %s", name, key, notified, want, stamp(p.first), stamp(p.ends), stamp(p.again))
		}
	}
	for key, n := range l.lines {
		if h := got[key]; h != nil && h.lines != n {
			v.add("lines counted wrongly", "%s: %s: wrote %d, counted %d (%+d)", name, key, n, h.lines, h.lines-n)
		}
	}
}

// timesHold reports whether startsAt <= now < endsAt holds for firing alerts
// and startsAt <= endsAt <= now for resolved ones, and nothing was refused.
func timesHold(v verdict, name string, am *fakeam.AM) {
	over := map[string]bool{}
	for _, post := range am.Posts() {
		if post.Code/100 != 2 {
			v.add("refused", "%s: a request with %d", name, post.Code)
		}
		for _, a := range post.Alerts {
			if a.StartsAt.After(post.Time.Add(2 * time.Second)) {
				v.add("starts in the future", "%s: %s at %s, heard at %s", name, keyOf(a.Labels), stamp(a.StartsAt), stamp(post.Time))
			}
			key := fmt.Sprint(a.Labels, a.EndsAt.UnixNano())
			if !a.EndsAt.After(post.Time) {
				over[key] = true
			} else if over[key] {
				v.add("ended in the future", "%s: %s at %s", name, keyOf(a.Labels), stamp(a.EndsAt))
			}
		}
	}
}

// machineClock is the clock of the daemon's machine.
type machineClock struct {
	setclock.Clock
	t    *testing.T
	file *os.File
	bin  string
}

// newMachineClock builds a daemon whose package time adds an offset from a
// file. The daemon has no other source of time: it is linked statically, and
// the kernel provides the time without a system call.
func newMachineClock(t *testing.T) *machineClock {
	t.Helper()
	dir := folder(t)
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	goroot := strings.TrimSpace(string(out))
	origin := filepath.Join(goroot, "src", "time", "time.go")
	b, err := os.ReadFile(origin)
	require.NoError(t, err)
	text := string(b)
	for from, to := range map[string]string{
		"\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {": "\tsec, nsec, mono := runtimeNow()\n\tsec += *ahead\n\tif mono == 0 {",
		"\t_ \"unsafe\" // for go:linkname\n":                 "\t\"syscall\"\n\t\"unsafe\"\n",
	} {
		require.Equal(t, 1, strings.Count(text, from), "package time is not as this test knows it: %q", from)
		text = strings.Replace(text, from, to, 1)
	}
	own := filepath.Join(dir, "time.go")
	require.NoError(t, os.WriteFile(own, []byte(text+aheadOfTime), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{origin: own}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	c := &machineClock{t: t, bin: filepath.Join(dir, "crowsnest")}
	require.NoError(t, daemon.Build(c.bin, "-overlay", filepath.Join(dir, "overlay.json")))
	c.file, err = os.Create(filepath.Join(dir, "clock"))
	require.NoError(t, err)
	t.Cleanup(func() { c.file.Close() })
	c.set(0)
	return c
}

// aheadOfTime is added to package time: the number of seconds that the clock is
// ahead.
const aheadOfTime = `
var ahead = func() *int64 {
	name, _ := syscall.Getenv("CROWSNEST_TEST_CLOCK")
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		panic("CROWSNEST_TEST_CLOCK cannot be opened")
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("CROWSNEST_TEST_CLOCK cannot be mapped")
	}
	syscall.Close(fd)
	return (*int64)(unsafe.Pointer(&b[0]))
}()
`

// of makes a command run on this machine.
func (c *machineClock) of(cmd *exec.Cmd) {
	cmd.Path, cmd.Args[0] = c.bin, c.bin
	cmd.Env = append(os.Environ(), "CROWSNEST_TEST_CLOCK="+c.file.Name())
}

// set sets the clock of the daemon, and then that of the logs.
func (c *machineClock) set(by time.Duration) {
	c.t.Helper()
	seconds := int64((c.Ahead() + by) / time.Second)
	_, err := c.file.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&seconds)), 8), 0)
	require.NoError(c.t, err)
	c.Set(by)
}

// The time zone is unknown, or one whose clock is set back tonight: nothing
// depends on it.
func TestTimeZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Bogus/Nowhere", "America/New_York"} {
		t.Run(strings.ReplaceAll(zone, "/", "-"), func(t *testing.T) {
			t.Parallel()
			if zone != "Bogus/Nowhere" {
				onlyLong(t)
			}
			l := load{perSecond: 100, pad: 100, maxSize: 20 << 10, planted: 50, period: 100_000}
			s := newScene(t, seed(t), options{writers: 1, load: l, resend: 5 * time.Second})
			s.p.Prepare = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "TZ="+zone) }
			s.p.start()
			s.p.ready()
			// Most parsers reject a leap second; the line counts nevertheless.
			s.writers[0].ask(func() {
				s.writers[0].c.Raw(time.Now().UTC().Format("2006-01-02T15:04:") + "60.5Z stdout F planted detection id=leap;\n")
			})
			pause(2 * time.Second)
			eventually(t, 10*time.Second, "the line of the leap second is heard", func() bool { return hear(s.good.AM)["ChaosPlanted leap"] != nil })
			s.p.kill()
			s.p.start()
			good, bad := s.settle(20*time.Second, nil)
			delete(good, "ChaosPlanted leap")
			delete(bad, "ChaosPlanted leap")
			s.judge(good, bad, nil)
			s.report(good, bad)
		})
	}
}
