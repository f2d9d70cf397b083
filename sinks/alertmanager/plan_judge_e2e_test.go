//go:build e2e

package alertmanager

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/test/servers"
)

// verdict lists the wrong notifications, by alert.
type verdict struct {
	missing []string
	extra   []string
	// memory lists notifications that a member sent after its absence from outdated alerts,
	// which no request could correct in time, and the ends that followed.
	memory []string
}

func (v verdict) String() string {
	return fmt.Sprintf("%d extra %v, %d from memory %v, %d missing %v", len(v.extra), v.extra, len(v.memory), v.memory, len(v.missing), v.missing)
}

// judge compares what was notified with what happened.
func (s *scene) judge() (out verdict) {
	flushes := s.staleFlushes()
	told := map[string][]servers.Notification{}
	for _, n := range s.hook.Notifications() {
		told[n.Key] = append(told[n.Key], n)
	}
	for name, ep := range s.words {
		want := []string{"firing"}
		if ep.State == episodes.StateResolved {
			want = append(want, "resolved")
		}
		last, stale := "", false // stale: fired from memory after its end, which was not notified since
		for _, n := range told[name] {
			what := fmt.Sprintf("%s %s %s", name, n.Status, n.Time.Format("05.000"))
			switch {
			case n.Status == "firing" && last != "" && s.fromMemory(n, flushes):
				stale = stale || last == "resolved"
				out.memory = append(out.memory, what)
			case len(want) > 0 && n.Status == want[0]:
				want = want[1:]
			case n.Status == "resolved" && (stale || last == "resolved" && s.fromMemory(n, flushes)):
				stale = false
				out.memory = append(out.memory, what)
			default:
				out.extra = append(out.extra, what)
			}
			last = n.Status
		}
		if len(want) > 0 || last != string(ep.State) {
			out.missing = append(out.missing, name)
		}
	}
	return out
}

// flush is one flush of a group that contained an alert.
type flush struct {
	name string
	at   time.Time
}

var flushLine = regexp.MustCompile(`(?m)^time=(\S+) .*msg=flushing .*alertname=\\"(\w+)\\".*\[(?:active|resolved)\]`)

// postTakes is how long an end takes, at least, to arrive at a member after it has
// answered the first request.
const postTakes = 10 * time.Millisecond

// staleFlushes returns the flushes of the member that was away, from when it left
// until an end could arrive, if they count.
func (s *scene) staleFlushes() (out []flush) {
	if !s.memoryCounts || s.member == nil || s.client.answered().IsZero() {
		return nil
	}
	for _, m := range flushLine.FindAllStringSubmatch(s.member.Log(), -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err == nil && at.After(s.goneAt) && at.Before(s.client.answered().Add(postTakes)) {
			out = append(out, flush{m[2], at})
		}
	}
	return out
}

// fromMemory reports whether n is the outcome of one of the flushes: that member
// sent it, before the next flush of the group.
func (s *scene) fromMemory(n servers.Notification, flushes []flush) bool {
	from, err := url.Parse(n.From)
	if err != nil || s.member == nil || !strings.HasSuffix(s.member.URL, ":"+from.Port()) {
		return false
	}
	return slices.ContainsFunc(flushes, func(f flush) bool {
		since := n.Time.Sub(f.at)
		return f.name == n.Key && since >= 0 && since < 4*time.Second
	})
}

// planResult is the result of a plan.
type planResult struct {
	*plan
	ours, control verdict
}

// table sums the results by the kind and the length of the absence.
func table(results []planResult) string {
	out := fmt.Sprintf("\n%-8s %-8s %6s | %8s %12s %8s | %s\n", "away by", "away", "plans", "extra", "from memory", "missing", "control: extra, missing")
	for _, how := range []string{stopped, killed, suspended, cut, isolated} {
		for _, long := range []bool{false, true} {
			length := "< 5 m"
			if long {
				length = ">= 5 m"
			}
			n := [6]int{}
			for _, r := range results {
				if r.how != how || (r.away >= 5*time.Minute/planFaster) != long {
					continue
				}
				for i, d := range []int{1, len(r.ours.extra), len(r.ours.memory), len(r.ours.missing), len(r.control.extra), len(r.control.missing)} {
					n[i] += d
				}
			}
			out += fmt.Sprintf("%-8s %-8s %6d | %8d %12d %8d | %d, %d\n", how, length, n[0], n[1], n[2], n[3], n[4], n[5])
		}
	}
	return out
}
