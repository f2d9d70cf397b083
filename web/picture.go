package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"crowsnest/episodes"
)

// Size of a small chart in pixels.
const (
	sparkStep   = 2 // pixels for each minute
	sparkWidth  = sparkStep * minutes
	sparkHeight = 16
)

// sparkline returns the SVG path of a series over the last hour, and the sum of its counts. The path is "" if the
// series is not known.
func (s *Server) sparkline(name string) (path string, sum uint64) {
	counts, _ := s.samples.perMinute(name)
	return sparkPath(counts)
}

// sparkPath returns the SVG outline of the counts of one hour, from left to right, and the sum of the counts.
func sparkPath(counts []uint32) (path string, sum uint64) {
	if len(counts) == 0 {
		return "", 0
	}
	most := max(1, slices.Max(counts))
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", sparkWidth-sparkStep*len(counts), sparkHeight)
	at, run := sparkHeight, 0
	flush := func() {
		if run > 0 {
			fmt.Fprintf(&b, "h%d", run*sparkStep)
		}
		run = 0
	}
	for _, n := range counts {
		sum += uint64(n)
		y := sparkHeight
		if n > 0 {
			y = sparkHeight - max(2, int(float64(n)/float64(most)*(sparkHeight-1)))
		}
		if y != at {
			flush()
			fmt.Fprintf(&b, "V%d", y)
			at = y
		}
		run++
	}
	flush()
	if at != sparkHeight {
		fmt.Fprintf(&b, "V%d", sparkHeight)
	}
	return b.String(), sum
}

// picture is the timeline of an episode as shapes. Positions and widths are percentages, so that texts and circles are
// not distorted when the width of the page changes.
type picture struct {
	Bands []shape // states of the episode
	Bars  []shape // lines per minute
	Marks []shape // events
	Ticks []shape // times on the axis
	Most  uint32  // number of lines in the tallest bar
}

// shape is a part of a picture.
type shape struct {
	X, W  string // position and width in percent
	Y, H  int    // position and height of a bar in pixels
	Class string
	Text  string // description for people
	End   bool   // whether the text of the shape is on the left side of the shape
}

// barHeight is the height of the tallest bar, in pixels.
const barHeight = 40

// axis converts times to percentages of the range between from and to.
type axis struct{ from, to time.Time }

func (a axis) position(t time.Time) float64 {
	part := float64(t.Sub(a.from)) / float64(a.to.Sub(a.from)) * 100
	return min(max(part, 0), 100)
}

func (a axis) spanAttributes(earlier, later time.Time) (x, w string) {
	x0, x1 := a.position(earlier), a.position(later)
	return formatPercent(x0), formatPercent(max(x1-x0, 0.2))
}

func formatPercent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

func (s *Server) drawPicture(e episodes.Episode, tl Timeline) picture {
	from, to := e.ActiveAt(), s.opt.Now()
	if !isEpisodeOpen(e) && !e.EndsAt.IsZero() {
		to = e.EndsAt
	}
	for _, ev := range tl.Events {
		if ev.Time != nil && ev.Kind != kindNext {
			if ev.Time.Before(from) {
				from = *ev.Time
			}
			if ev.Time.After(to) {
				to = *ev.Time
			}
		}
	}
	room := max(to.Sub(from)/40, time.Second)
	a := axis{from.Add(-room), to.Add(room)}
	p := picture{Bands: stateBands(a, e, tl.Events), Ticks: axisTicks(a)}
	for _, ev := range tl.Events {
		if ev.Time != nil && ev.Kind != kindNext {
			p.Marks = append(p.Marks, shape{X: formatPercent(a.position(*ev.Time)), Class: markClass(ev), Text: formatTime(*ev.Time) + ": " + ev.Text})
		}
	}
	counts, first := s.samples.perMinute(episodeSeries(e.Fingerprint.String()))
	if len(counts) > 0 {
		p.Most = slices.Max(counts)
	}
	for i, n := range counts {
		begin := first.Add(time.Duration(i) * time.Minute)
		if n == 0 || begin.Add(time.Minute).Before(a.from) || begin.After(a.to) {
			continue
		}
		x, w := a.spanAttributes(begin, begin.Add(time.Minute))
		h := max(2, int(float64(n)/float64(p.Most)*barHeight))
		p.Bars = append(p.Bars, shape{X: x, W: w, Y: barHeight - h, H: h, Text: fmt.Sprintf("%s: %d", begin.Format("15:04"), n)})
	}
	return p
}

func markClass(ev Event) string {
	switch ev.Kind {
	case kindNotified:
		if ev.Delivery != nil && ev.Delivery.Error != "" {
			return "failed"
		}
		return "notified"
	case string(episodes.EventEnded):
		return "ended"
	case string(episodes.EventFired), string(episodes.EventOpened):
		return "turn"
	}
	return "other"
}

// stateBands returns a shape for each state of an episode, and for each time in which the episode was on hold.
func stateBands(a axis, e episodes.Episode, events []Event) []shape {
	var out, holds []shape
	state, since := "", a.from
	var held time.Time
	end := func(t time.Time) {
		if state != "" {
			x, w := a.spanAttributes(since, t)
			out = append(out, shape{X: x, W: w, Class: state, Text: state})
		}
		since = t
	}
	hold := func(t time.Time) {
		if !held.IsZero() {
			x, w := a.spanAttributes(held, t)
			holds = append(holds, shape{X: x, W: w, Class: "held", Text: "on hold"})
		}
		held = time.Time{}
	}
	last := a.to
	for _, ev := range events {
		if ev.Time == nil {
			continue
		}
		switch episodes.EventKind(ev.Kind) {
		case episodes.EventOpened:
			if state == "" {
				end(*ev.Time)
				state = "pending"
			}
		case episodes.EventFired:
			end(*ev.Time)
			state = "firing"
		case episodes.EventOnHold:
			hold(*ev.Time)
			held = *ev.Time
		case episodes.EventResumed:
			hold(*ev.Time)
		case episodes.EventEnded:
			hold(*ev.Time)
			end(*ev.Time)
			state = string(e.State)
		}
	}
	hold(last)
	end(last)
	return append(out, holds...)
}

// tickSteps are the possible intervals between the times on the axis of a picture.
var tickSteps = []time.Duration{
	time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// axisTicks returns at most five round times on an axis.
func axisTicks(a axis) []shape {
	const most = 4
	span := a.to.Sub(a.from)
	step := span / most
	for _, d := range tickSteps {
		if span/d <= most {
			step = d
			break
		}
	}
	format := "15:04"
	switch {
	case step < time.Minute:
		format = "15:04:05"
	case step >= 24*time.Hour:
		format = "Jan 2"
	case span > 24*time.Hour:
		format = "Jan 2 15:04"
	}
	var out []shape
	for t := a.from.UTC().Truncate(step); !t.After(a.to); t = t.Add(step) {
		if x := a.position(t); !t.Before(a.from) {
			out = append(out, shape{X: formatPercent(x), Text: t.Format(format), End: x > 85})
		}
	}
	return out
}
