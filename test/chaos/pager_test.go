package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"crowsnest/test/wait"
)

// A real Alertmanager is killed and loses its alerts and its notification log:
// open alerts return soon, and people are notified twice only where
// Alertmanager repeats because of the lost log.
func TestPagerKilled(t *testing.T) {
	onlyLong(t)
	const resend = 10 * time.Second
	l := kubeletLoad(20 * time.Second)
	l.once = true
	s := newScene(t, seed(t), options{writers: 4, load: l, pager: true, resend: resend, shipped: true})
	if s.pager == nil {
		t.Skip("no real Alertmanager here")
	}
	s.p.start()
	s.p.ready()
	pause(45 * time.Second)
	before := s.pager.hook.States()
	killed := time.Now()
	s.pager.am.Kill()
	pause(5 * time.Second) // what ends and begins meanwhile is missed
	s.pager.am.Start()
	back := time.Now()
	open := s.openBefore(killed)
	eventually(t, time.Minute+resend, "all that is open is back", func() bool {
		there := s.pager.active()
		return !slices.ContainsFunc(open, func(key string) bool { return !there[key] && s.stillOpen(key) })
	})
	t.Logf("%d alerts were open; they were back %v after the Alertmanager", len(open), time.Since(back).Round(100*time.Millisecond))
	pause(30 * time.Second)
	good, bad := s.settle(60*time.Second, nil)
	pager := s.pager
	s.pager = nil // judged here
	s.judge(good, bad, nil)
	s.report(good, bad)
	var v verdict
	var again, lost int
	wait.Until(40*time.Second, func() bool {
		v = verdict{}
		again, lost = s.led.notifiedAgain(v, before, pager.hook.States(), killed)
		return len(v) == 0
	})
	v.fail(t)
	t.Logf("of %d alerts that were notified before the kill, Alertmanager notified %d as firing once more, and lost %d ends that it had taken",
		len(before), again, lost)
}

// openBefore returns the planted alerts that were open at a time.
func (s *scene) openBefore(at time.Time) (open []string) {
	s.led.mu.Lock()
	defer s.led.mu.Unlock()
	for key, p := range s.led.plants {
		if !p.never && p.last.Before(at.Add(-20*time.Second)) && p.ends.IsZero() {
			open = append(open, key)
		}
	}
	return open
}

func (s *scene) stillOpen(key string) bool {
	s.led.mu.Lock()
	defer s.led.mu.Unlock()
	return s.led.plants[key].ends.IsZero()
}

// active returns the alerts that are firing in the Alertmanager.
func (p *pager) active() map[string]bool {
	out := map[string]bool{}
	alerts, _ := p.am.TryAlerts()
	for _, a := range alerts {
		out[keyOf(a.Labels)] = true
	}
	return out
}

// notifiedAgain compares the notifications before and after a kill of
// Alertmanager. The new process may repeat a firing notification, nothing else.
// A resolved alert that the old process accepted, but did not notify within its
// group_interval before it was killed, is lost with it.
func (l *ledger) notifiedAgain(v verdict, before, notified map[string]string, killed time.Time) (again, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.plants {
		want := p.history()
		got := notified[key]
		switch {
		case got == want:
		case before[key] == "firing" && got == "firing "+want:
			again++
		case !p.ends.IsZero() && p.ends.Before(killed) && p.ends.After(killed.Add(-6*time.Second)) && got == "firing":
			lost++
		default:
			v.add("notified wrongly", "%s: %q instead of %q, %q before the kill, began %s, ended %s, killed %s",
				key, got, want, before[key], stamp(p.first), stamp(p.ends), stamp(killed))
		}
	}
	for key, got := range notified {
		if l.plants[key] == nil && (strings.Trim(strings.ReplaceAll(got, "firing", ""), " ") != "" || !slices.Contains(own, key)) {
			v.add("notified wrongly", "%s: %q", key, got)
		}
	}
	return again, lost
}
