package sentinel

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"crowsnest/internal/quota"
	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/unknown/discover"
)

// maxPods is the largest number of pods that are remembered for one component.
const maxPods = 8

// nameLabels are the labels that name a component, in the order of preference.
var nameLabels = []string{"container", "unit", "app"}

// component is the state of one container, unit or app in a namespace.
type component struct {
	key           string // hash of the component's labels
	labels        map[string]string
	party         string
	class         quota.Class // whether the namespace belongs to the infrastructure
	since         int64       // time at which the component's first line was read, in Unix seconds
	podsSeen      []podSeen
	image         string
	previousImage string // image before the current one; "" if there was none
	imageAt       int64  // time since which the component has had its current image
	ignored       bool
	gone          bool                   // whether the component was forgotten
	patterns      *quota.Cache[*pattern] // patterns of complaints; nil if there were none
	alert         *alert                 // open alert; nil if there is none
	last          int64                  // time at which the component's last alert fired
}

type podSeen struct {
	Name  string `json:"name"`
	Since int64  `json:"since"`
}

func hashOf(s string) uint64 { return xxhash.Sum64String(s) }

// componentLabels returns the labels of the component to which a stream belongs. It returns nil
// if the stream belongs to none.
func (s *Sentinel) componentLabels(labels matcher.Labels) map[string]string {
	out := map[string]string{}
	for _, name := range nameLabels {
		if v := labels[name]; v != "" {
			out[name] = v
			break
		}
	}
	if len(out) == 0 && !s.cfg.Unlabelled {
		return nil
	}
	for _, name := range append([]string{"namespace"}, s.cfg.Identity...) {
		if v := labels[name]; v != "" {
			out[name] = v
		}
	}
	return out
}

func keyOf(labels map[string]string) string {
	return string(binary.BigEndian.AppendUint64(nil, hashOf(text.FormatLabels(labels))))
}

func (c *component) namespace() string { return c.labels["namespace"] }

func (c *component) name() string {
	for _, label := range nameLabels {
		if v := c.labels[label]; v != "" {
			return v
		}
	}
	return ""
}

func (s *Sentinel) class(namespace string) quota.Class {
	if s.cfg.Trusted == nil || s.cfg.Trusted(namespace) {
		return quota.Infrastructure
	}
	return quota.Ordinary
}

// infrastructure reports whether a party, which is a namespace of a cluster, belongs to the
// infrastructure.
func (s *Sentinel) infrastructure(party string) bool {
	return s.class(party[strings.LastIndexByte(party, '/')+1:]) == quota.Infrastructure
}

// component returns the component with these labels, and adds it if it does not exist. since
// is a time from which on the component has been read.
func (s *Sentinel) component(labels map[string]string, since int64) *component {
	group := s.components[s.class(labels["namespace"])]
	key := keyOf(labels)
	c := (*component)(nil)
	if x := group.Items[key]; x != nil {
		c = x.Value
		c.since = min(c.since, since)
		if c.labels == nil {
			s.name(c, labels)
		}
		group.Touch(&x.Entry, c.party)
		return c
	}
	c = &component{key: key, since: since}
	s.name(c, labels)
	group.Add(key, c.party, c, 1)
	return c
}

// use marks a component as the most recently used component of its namespace.
func (s *Sentinel) use(c *component) {
	group := s.components[c.class]
	if x := group.Items[c.key]; x != nil {
		group.Touch(&x.Entry, c.party)
	}
}

func (s *Sentinel) name(c *component, labels map[string]string) {
	c.labels = maps.Clone(labels)
	c.party, c.class = partyOf(labels), s.class(labels["namespace"])
	c.ignored = slices.ContainsFunc(s.cfg.Ignore, func(g IgnoreRule) bool { return g.Text == "" && g.matches(c) })
}

// partyOf returns the party to which labels belong, which is a namespace of a cluster.
func partyOf(labels map[string]string) string {
	if cluster := labels["cluster"]; cluster != "" {
		return cluster + "/" + labels["namespace"]
	}
	return labels["namespace"]
}

// pod records that the lines of a pod are read. It returns the time since which they are read.
func (c *component) pod(name string, since int64) int64 {
	if k := slices.IndexFunc(c.podsSeen, func(p podSeen) bool { return p.Name == name }); k >= 0 {
		p := &c.podsSeen[k]
		p.Since = min(p.Since, since)
		return p.Since
	}
	c.podsSeen = append(c.podsSeen, podSeen{strings.Clone(name), since})
	slices.SortFunc(c.podsSeen, func(a, b podSeen) int { return cmp.Or(cmp.Compare(a.Since, b.Since), strings.Compare(a.Name, b.Name)) })
	c.podsSeen = c.podsSeen[max(0, len(c.podsSeen)-maxPods):]
	return since
}

func (c *component) runs(image string, t int64) {
	if image == c.image {
		return
	}
	if c.image != "" {
		c.previousImage, c.imageAt = c.image, t
	}
	c.image = text.Truncate(redact.Sanitise(image), 200)
}

// pattern returns the pattern of x, and adds it if the component does not have it. The line of
// x must be the last line that s.reader read.
func (s *Sentinel) pattern(c *component, x *discover.Complaint) *pattern {
	group := s.patternsOf(c)
	key := string(binary.BigEndian.AppendUint64(nil, x.Key))
	if item := group.Items[key]; item != nil {
		group.Touch(&item.Entry, c.party)
		return item.Value
	}
	p := &pattern{Key: x.Key, Level: x.Level}
	p.Template, p.Error = s.reader.Template(s.cfg.Redactor)
	p.Template, p.Error = shorten(p.Template), shorten(p.Error)
	group.Add(key, c.party, p, p.size())
	return p
}

func (s *Sentinel) patternsOf(c *component) *quota.Cache[*pattern] {
	if c.patterns == nil {
		c.patterns = quota.NewCache(c, s.class(c.namespace()), s.patterns, maxPatterns, func(string, *pattern, string) { s.st.Evicted++ })
	}
	return c.patterns
}

func (c *component) resize(p *pattern) {
	if item := c.patterns.Items[p.key()]; item != nil {
		c.patterns.Resize(&item.Entry, p.size())
		c.patterns.EvictExcess(&item.Entry)
	}
}

// maxTemplate and maxLine limit the length of the texts of a pattern, in bytes.
const (
	maxTemplate = 400
	maxLine     = 1 << 10
	maxExample  = 400
)

func shorten(t redact.Text) redact.Text {
	return text.TruncateMiddle(redact.Sanitise(t), maxTemplate).Clone()
}

// formForRule returns the form of a line that is kept to write a rule later.
func formForRule(line redact.Text) redact.Text {
	if end := strings.IndexByte(string(line), '\n'); end >= 0 {
		line = line[:end]
	}
	return text.Truncate(line, maxLine).Clone()
}

// shown returns a line as an example for people. It omits stack traces, but keeps the end of
// the line.
func shown(line redact.Text) redact.Text {
	return text.TruncateMiddle(redact.Sanitise(line.Map(discover.EventText)), maxExample).Clone()
}
