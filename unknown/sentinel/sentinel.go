// Package sentinel watches for failures that no rule describes.
//
// It takes the lines that report errors and that no rule matches, which are called complaints
// (see matcher.Complaint). It remembers the patterns of these lines for each component, which
// is a container, unit or app in a namespace, however many replicas it has. Each component has
// at most one alert, which is called UnknownFailure and has level info. A pattern fires it if
// the pattern is new after an hour of reading the component, or if it persists for one object.
// The alert ends when its patterns are proved to be quiet.
//
// The state of a pattern consists of minima, maxima and sets of intervals of five minutes.
// Therefore states can be merged in any order and any number of times. An agent sends its
// state (Summary) and the aggregator merges it (Merge). The decisions are the same as in one
// process that reads all lines.
//
// All memory is bounded and shared among namespaces. A tenant who writes many patterns evicts
// only the tenant's own.
package sentinel

import (
	"cmp"
	"path"
	"strings"
	"sync"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/quota"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// AlertName is the name of the alerts.
const AlertName = "UnknownFailure"

// Bounds of memory. Namespaces of the infrastructure have an additional quarter for themselves.
const (
	maxComponents = 2500
	maxPatterns   = 1500
	maxBytes      = 1536 << 10 // largest estimated size of all patterns, in bytes
	maxNodes      = 5000
)

// Config configures a Sentinel.
type Config struct {
	// PerDay is the number of alerts that may fire in 24 hours.
	PerDay int
	// Ignore lists components and texts that are not watched.
	Ignore []IgnoreRule
	// Redactor hides secrets. If it is nil, secrets are shown.
	Redactor *redact.Redactor
	// Identity contains the names of stream labels that become labels of every component.
	Identity []string
	// Trusted reports whether a namespace belongs to the infrastructure. If Trusted is nil,
	// all namespaces do. The namespaces that do not belong to the infrastructure share half of
	// PerDay.
	Trusted func(namespace string) bool
	// Image returns the image of a container, or "" if it is not known. If it is nil, no image
	// is known.
	Image func(namespace, pod, container string) string
	// Alerts returns the alerts of rules that are open or ended a few minutes ago, see Explain.
	// It is nil if there are no rules. It must not call the Sentinel.
	Alerts func() []episodes.Episode
	// Unlabelled makes all streams without the labels container, unit and app one component.
	Unlabelled bool
}

// IgnoreRule excludes complaints. A complaint is excluded if all conditions that are not empty
// hold.
type IgnoreRule struct {
	Namespace, Component string // namespace and component, as names or globs
	Text                 string // text that the line must contain
}

// matches reports whether a component fulfils Namespace and Component.
func (g *IgnoreRule) matches(c *component) bool {
	return glob(g.Namespace, c.namespace()) && glob(g.Component, c.name())
}

func glob(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// Sentinel remembers patterns and decides which ones are failures. It is safe for concurrent
// use.
type Sentinel struct {
	cfg Config

	mu         sync.Mutex
	reader     discover.ComplaintReader
	components [quota.Classes]*quota.Cache[*component] // components by key
	patterns   *quota.Pool
	pace       pace
	nodes      map[string]int64 // time up to which each agent has reported
	ruleAlerts []ruleAlert      // alerts of rules that Config.Alerts returned
	reportedAt int64            // time at which Config.Alerts was last called
	fired      []int64          // times at which alerts fired in the last 24 hours, in order
	open       int
	displaced  []episodes.Episode // ended alerts of components that were forgotten for lack of room
	changed    bool               // whether alerts changed since the last export
	encoded    []byte
	encodedAt  int64
	clock      int64 // time of the last Take or Evaluate
	st         Stats
}

// Stats counts what a Sentinel did.
type Stats struct {
	Components, Patterns int   // number of remembered components and patterns
	Open                 int   // number of open alerts
	Lines                int64 // number of lines that report an error
	Skipped              int64 // number of these lines that were only counted (see pace)
	Evicted              int64 // number of patterns that were forgotten for lack of room
	Fired                int64 // number of alerts that fired
	Held                 int   // number of failures without an alert, because the limit of PerDay is reached
}

// New returns a Sentinel without any state.
func New(cfg Config) *Sentinel {
	s := &Sentinel{cfg: cfg, patterns: quota.NewPool(quota.ReserveQuarter(quota.Load{maxPatterns, maxBytes}), nil), nodes: map[string]int64{}, pace: newPace()}
	for i := range cfg.Ignore {
		cfg.Ignore[i].Text = strings.ToLower(cfg.Ignore[i].Text)
	}
	pool := quota.NewPool(quota.ReserveQuarter(quota.Load{maxComponents, maxComponents}), nil)
	for class := range quota.Classes {
		s.components[class] = quota.NewCache(nil, class, pool, 2*maxComponents, func(_ string, c *component, _ string) { s.dropped(c) })
	}
	return s
}

func (s *Sentinel) dropped(c *component) {
	c.gone = true
	if c.alert != nil {
		s.displaced = append(s.displaced, s.endAlert(c, episodes.ReasonDisplaced, s.clock, s.clock))
	}
	if c.patterns != nil {
		s.st.Evicted += int64(c.patterns.Used())
		c.patterns.Purge()
	}
}

// note is the state that a stream keeps for the Sentinel.
type note struct {
	sentinel  *Sentinel
	component *component // component of the stream; nil if the stream is not watched
	pod       string
	stream    uint64 // hash of the stream
	since     int64  // time at which the pod started
	shapes    newShapes
}

// Take accepts the complaints that one call of the matcher found in a stream; there may be
// none. It does not keep them. Calls for the same stream must not overlap.
func (s *Sentinel) Take(stream *matcher.Stream, lines []matcher.Complaint, now time.Time) {
	n, _ := stream.Note().(*note)
	if n != nil && n.sentinel == s && (len(lines) == 0 || n.component == nil) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Unix()
	s.clock = at
	if n == nil || n.sentinel != s || n.component.gone {
		first := at
		if len(lines) > 0 {
			first = min(first, lines[0].Time.Unix())
		}
		n = s.follow(stream.Labels(), first)
		stream.SetNote(n)
		if n.component == nil {
			return
		}
	}
	for i := range lines {
		s.line(n, &lines[i], at)
	}
}

// follow creates the note of a stream. since is the time from which on the stream is read.
func (s *Sentinel) follow(labels matcher.Labels, since int64) *note {
	n := &note{sentinel: s, pod: labels["pod"], since: since}
	own := s.componentLabels(labels)
	if own == nil {
		return n
	}
	n.component = s.component(own, since)
	if n.component.ignored {
		n.component = nil
		return n
	}
	n.since = n.component.pod(n.pod, since)
	n.stream = hashOf(n.component.key + n.pod)
	if image := cmp.Or(labels["image"], s.imageOf(n.component, n.pod)); image != "" {
		n.component.runs(image, since)
	}
	return n
}

func (s *Sentinel) imageOf(c *component, pod string) string {
	if s.cfg.Image == nil || pod == "" {
		return ""
	}
	return s.cfg.Image(c.namespace(), pod, c.name())
}

func (s *Sentinel) line(n *note, x *matcher.Complaint, now int64) {
	at := min(x.Time.Unix(), now) // limit a forged time in the future
	s.st.Lines++
	weight := s.pace.admit(n, x.Line, at)
	if weight == 0 {
		s.st.Skipped++
		return
	}
	c, ok := s.reader.Read(x.Line, s.cfg.Redactor)
	if !ok || s.ignoresText(n.component, x.Line) {
		return
	}
	object := c.Object
	if object == "" {
		object = s.cfg.Redactor.Text(n.pod)
	}
	s.use(n.component)
	p := s.pattern(n.component, &c)
	if p.Line == "" {
		p.Line = formForRule(c.Line)
	}
	p.add(&c, object, at, weight, at-n.since >= startup)
	if p.wantsExample(object) {
		p.addExample(object, shown(c.Line))
	}
	p.addPod(n.pod)
	n.component.resize(p)
}

func (s *Sentinel) ignoresText(c *component, line string) bool {
	lower := ""
	for i := range s.cfg.Ignore {
		g := &s.cfg.Ignore[i]
		if g.Text == "" || !g.matches(c) {
			continue
		}
		if lower == "" {
			lower = strings.ToLower(line)
		}
		if strings.Contains(lower, g.Text) {
			return true
		}
	}
	return false
}

// Stats returns the counters.
func (s *Sentinel) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	st.Open, st.Patterns = s.open, s.patterns.Total()
	for _, group := range s.components {
		st.Components += len(group.Items)
	}
	return st
}
