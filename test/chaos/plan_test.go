package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"crowsnest/test/fault"
	"crowsnest/test/wait"
)

// step is one fault.
type step struct {
	after time.Duration // since the end of the previous step
	kind  string
	down  time.Duration // duration
	which int           // index of a container or of a failure
}

func (s step) String() string {
	return fmt.Sprintf("+%v %s %v #%d", s.after.Round(time.Millisecond), s.kind, s.down.Round(time.Millisecond), s.which)
}

// mix states how many steps of each kind a plan has.
type mix struct {
	kill, term, stop, rotate, restart, churn, peer, hup int
	api, watch, journal                                 int           // only with a witness
	gap                                                 time.Duration // longest time between two steps
	down                                                time.Duration // longest downtime
}

// plan returns the plan of a seed.
func (m mix) plan(seed uint64) []step {
	rng := rand.New(rand.NewPCG(seed, 2))
	var kinds []string
	for _, k := range []struct {
		name string
		n    int
	}{
		{"kill", m.kill},
		{"term", m.term},
		{"stop", m.stop},
		{"rotate", m.rotate},
		{"restart", m.restart},
		{"churn", m.churn},
		{"peer", m.peer},
		{"hup", m.hup},
		{"api", m.api},
		{"watch", m.watch},
		{"journal", m.journal},
	} {
		for range k.n {
			kinds = append(kinds, k.name)
		}
	}
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var out []step
	for _, kind := range kinds {
		s := step{kind: kind, which: rng.IntN(1 << 16)}
		s.after = m.gap/10 + upTo(rng, m.gap)
		switch r := rng.IntN(10); {
		case r < 2:
			s.after = upTo(rng, m.gap/8) // also while the daemon starts
		case r < 3 && kind != "stop":
			s.down = upTo(rng, m.down)
		default:
			s.down = upTo(rng, m.down/6)
		}
		out = append(out, s)
	}
	return out
}

// upTo returns a duration from 0 to d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d) + 1))
}

// failures are the ways in which an Alertmanager fails.
var failures = []struct {
	name  string
	fault fault.Fault
}{
	{"hangs", fault.Hang},
	{"is slow", fault.Slow(3 * time.Second)},
	{"says 500", fault.Status(http.StatusInternalServerError)},
	{"says 429", fault.Status(http.StatusTooManyRequests, "Retry-After", "1")},
	{"says 400", fault.Status(http.StatusBadRequest)},
	{"resets", fault.Reset},
	{"refuses", nil}, // it does not listen
}

// do executes a step.
func (s *scene) do(st step) {
	w := s.writers[st.which%len(s.writers)]
	switch st.kind {
	case "kill":
		s.p.kill()
		pause(st.down)
		s.p.start()
	case "term":
		s.p.term()
		pause(st.down)
		s.p.start()
	case "stop":
		s.p.Signal(syscall.SIGSTOP)
		pause(st.down)
		s.p.Signal(syscall.SIGCONT)
	case "rotate":
		w.ask(w.rotate)
	case "restart":
		if time.Since(s.restarted[w]) > 15*time.Second { // the newest file of ended containers stays: it must be read
			w.ask(w.restart)
			s.restarted[w] = time.Now()
		}
	case "churn":
		s.churn(st.which)
	case "peer":
		s.fail(st)
	case "hup":
		// Before the program handles signals, SIGHUP kills it; it listens after that.
		wait.Until(time.Minute, func() bool {
			conn, err := net.DialTimeout("tcp", s.p.Addr, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			p := s.p.Process()
			return err == nil || p == nil || !p.Running()
		})
		s.p.Signal(syscall.SIGHUP)
	}
}

// fail makes the second Alertmanager fail while the other steps continue.
func (s *scene) fail(st step) {
	f := failures[st.which%len(failures)]
	if f.fault == nil {
		s.bad.Stop()
	} else {
		s.bad.AM.Set(f.fault)
	}
	s.heal()
	timer := time.AfterFunc(time.Second+2*st.down, func() {
		s.bad.AM.Set(nil)
		if f.fault == nil {
			if err := s.bad.Start(); err != nil {
				s.t.Errorf("the fake Alertmanager does not come back: %v", err)
			}
		}
	})
	s.heal = func() {
		if timer.Stop() {
			s.bad.AM.Set(nil)
			if f.fault == nil {
				if err := s.bad.Start(); err != nil {
					s.t.Errorf("the fake Alertmanager does not come back: %v", err)
				}
			}
		}
	}
}

// churn starts and ends a pod that lives long enough to be read.
func (s *scene) churn(n int) {
	s.churned++
	name := fmt.Sprintf("x%d-%d", s.churned, n)
	w := newWriter(s.pods, name, load{perSecond: 1, pad: 20, planted: 50, period: 1000}, s.led, uint64(1000+s.churned))
	w.lines(100)
	s.t.Cleanup(w.c.Close)
	if !wait.Until(30*time.Second, func() bool {
		for _, word := range s.good.AM.Accepted("ChaosLines") {
			if word.Alert.Labels["pod"] == name && strings.TrimSpace(word.Alert.Annotations["lines"]) == "100" {
				return true
			}
		}
		return false
	}) {
		s.t.Errorf("pod %s was not read within 30 s", name)
	}
	heard := time.Now()
	wait.Until(10*time.Second, func() bool { // the lines read are saved, too
		saved, ok := s.p.savedAt()
		return ok && saved.After(heard)
	})
	w.c.Remove()
	if w.c.Err != nil {
		s.t.Errorf("pod %s: %v", name, w.c.Err)
	}
}
