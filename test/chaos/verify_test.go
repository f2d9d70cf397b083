package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"crowsnest/test/fakeam"
)

// heard is what one Alertmanager received for one key.
type heard struct {
	firing   time.Time   // when it was first accepted as firing; zero: never
	starts   []time.Time // different startsAt, in order
	ends     time.Time   // endsAt of the newest message, if that is resolved
	resolved bool
	states   string   // such as "firing resolved", without repeats
	lines    int64    // annotation of the newest message
	rev      string   // annotation of the newest message
	history  []string // the messages that differ from the one before, for people
}

// hear evaluates what an Alertmanager accepted.
func hear(am *fakeam.AM) map[string]*heard {
	out := map[string]*heard{}
	for _, words := range am.All() {
		for _, w := range words {
			key := keyOf(w.Alert.Labels)
			h := out[key]
			if h == nil {
				h = &heard{}
				out[key] = h
			}
			h.take(w)
		}
	}
	return out
}

func (h *heard) take(w fakeam.Accepted) {
	state := "firing"
	if w.Resolved {
		state = "resolved"
		h.ends = w.Alert.EndsAt
	} else if h.firing.IsZero() {
		h.firing = w.Time
	}
	h.resolved = w.Resolved
	word := fmt.Sprintf("%s since %s", state, stamp(w.Alert.StartsAt))
	if w.Resolved {
		word += " until " + stamp(w.Alert.EndsAt)
	}
	if n := len(h.history); n == 0 || !strings.HasSuffix(h.history[n-1], word) {
		h.history = append(h.history, stamp(w.Time)+" "+word)
	}
	if !strings.HasSuffix(h.states, state) {
		h.states = strings.TrimSpace(h.states + " " + state)
	}
	if !slices.ContainsFunc(h.starts, w.Alert.StartsAt.Equal) {
		h.starts = append(h.starts, w.Alert.StartsAt)
	}
	if n, err := strconv.ParseInt(w.Alert.Annotations["lines"], 10, 64); err == nil {
		h.lines = n
	}
	if rev := w.Alert.Annotations["rev"]; rev != "" {
		h.rev = rev
	}
}

// verdict lists the problems by kind.
type verdict map[string][]string

func (v verdict) add(kind, format string, args ...any) {
	v[kind] = append(v[kind], fmt.Sprintf(format, args...))
}

// fail reports the problems, some of each kind.
func (v verdict) fail(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(v)) {
		all := v[kind]
		slices.Sort(all)
		t.Errorf("%s: %d\n\t%s", kind, len(all), strings.Join(all[:min(len(all), 12)], "\n\t"))
	}
}

// own are the expected alerts of the daemon about itself. It may report a loss
// for a removed pod that was read to its end, because a process that was killed
// at that moment does not know.
var own = []string{"CrowsnestHeartbeat ", "CrowsnestLinesLost removed"}

// verify compares what an Alertmanager accepted with what was planted. except
// are keys that it refused.
func (l *ledger) verify(v verdict, name string, got map[string]*heard, except func(key string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.plants {
		if except != nil && except(key) {
			continue
		}
		h := got[key]
		switch {
		case p.never && h != nil:
			v.add("fabricated", "%s: %s was over before it could fire", name, key)
		case p.never:
		case h == nil || h.firing.IsZero():
			v.add("lost", "%s: %s of %s", name, key, stamp(p.first))
		default:
			l.compare(v, name+": "+key, h, p)
		}
	}
	for key := range got {
		if l.plants[key] == nil && !slices.Contains(own, key) {
			v.add("fabricated", "%s: %s", name, key)
		}
	}
	for key, n := range l.lines {
		if h := got[key]; h != nil && h.lines != n {
			v.add("lines counted wrongly", "%s: %s: wrote %d, counted %d (%+d)", name, key, n, h.lines, h.lines-n)
		}
	}
}

// compare compares the times and the history of one alert.
func (l *ledger) compare(v verdict, what string, h *heard, p *plant) {
	history, begins := p.history(), 1
	if !p.again.IsZero() {
		begins = 2
	}
	switch {
	case len(h.starts) > begins:
		v.add("duplicated", "%s began %d times: %v", what, len(h.starts), h.starts)
	case h.starts[0].Before(p.first.Truncate(time.Millisecond)) || h.starts[0].After(p.last.Add(time.Millisecond+p.slack)):
		v.add("began at another line", "%s: %s instead of %s", what, stamp(h.starts[0]), stamp(p.first))
	}
	switch {
	case history != "firing" && h.states == "firing":
		v.add("unresolved", "%s since %s", what, stamp(p.ends))
	case h.states != history:
		v.add("flapped", "%s: %s; %s", what, h.states, strings.Join(h.history, ", "))
	case !p.ends.IsZero() && h.ends.Sub(p.ends).Abs() > 10*time.Millisecond+p.slack:
		v.add("ended at another line", "%s: %s instead of %s; %s", what, stamp(h.ends), stamp(p.ends), strings.Join(h.history, ", "))
	}
}

// notified compares the notifications of a real Alertmanager with the plan.
func (l *ledger) notified(v verdict, notified map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.plants {
		want := p.history()
		if notified[key] != want {
			v.add("notified wrongly", "%s: %q instead of %q", key, notified[key], want)
		}
	}
	for key, got := range notified {
		if l.plants[key] == nil && (got != "firing" || !slices.Contains(own, key)) {
			v.add("notified wrongly", "%s: %q", key, got)
		}
	}
}

// complete reports whether all planted alerts have arrived, so that waiting can
// end. It ignores extra alerts.
func (l *ledger) complete(got map[string]*heard, except func(key string) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.plants {
		if p.never || except != nil && except(key) {
			continue
		}
		h := got[key]
		if h == nil || h.firing.IsZero() || !p.ends.IsZero() && !strings.Contains(h.states, "resolved") || !p.again.IsZero() && len(h.starts) < 2 {
			return false
		}
	}
	for key, n := range l.lines {
		if h := got[key]; h == nil || h.lines < n {
			return false
		}
	}
	return true
}

// latencies returns the sorted times from a line to its acceptance, without
// alerts that wait on purpose.
func (l *ledger) latencies(got map[string]*heard, from, to time.Time) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []time.Duration
	for key, p := range l.plants {
		if h := got[key]; h != nil && !h.firing.IsZero() && !p.first.Before(from) && p.first.Before(to) && !strings.HasPrefix(key, "ChaosLost ") {
			out = append(out, h.firing.Sub(p.last))
		}
	}
	slices.Sort(out)
	return out
}

// percentiles formats p50, p99 and the maximum.
func percentiles(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	ms := func(p float64) time.Duration { return at(d, p).Round(time.Millisecond) }
	return fmt.Sprintf("n=%d p50=%v p99=%v max=%v", len(d), ms(0.5), ms(0.99), ms(1))
}

// at returns a percentile of sorted values.
func at(d []time.Duration, p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(int(float64(len(d))*p), len(d)-1)]
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000000") }
