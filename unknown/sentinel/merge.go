package sentinel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"crowsnest/internal/text"
	"crowsnest/redact"
)

// maxLabel is the largest length of a label value in the report of an agent, in bytes.
const maxLabel = 253

// Merge adds the report of an agent, which is the result of Summary. Merging the same report
// again changes nothing. Merge does not trust the agent. It bounds sizes and times, and makes
// texts safe to show.
func (s *Sentinel) Merge(node string, report []byte, now time.Time) error {
	var in savedState
	if len(report) > 2*MaxReport {
		return fmt.Errorf("the report of node %s has %d bytes, more than %d", node, len(report), 2*MaxReport)
	}
	if err := json.Unmarshal(report, &in); err != nil {
		return fmt.Errorf("the failures of node %s that no rule describes cannot be read: %w", node, err)
	}
	if in.Version != version {
		return nil // a newer agent wrote the report
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now.Unix()
	if err := s.rememberRead(in.Read); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	patterns := 0
	for i := range in.Components[:min(len(in.Components), maxComponents)] {
		x := &in.Components[i]
		if !s.labelsFit(x.Labels) {
			continue
		}
		c := s.component(x.Labels, min(x.Since, at))
		if c.ignored {
			continue
		}
		for _, p := range x.Pods[:min(len(x.Pods), maxPods)] {
			c.pod(text.Truncate(redact.Sanitise(p.Name), maxLabel), min(p.Since, at))
			if image := s.imageOf(c, p.Name); image != "" {
				c.runs(image, min(p.Since, at))
			}
		}
		if x.Image != "" && c.image == "" {
			c.image, c.previousImage, c.imageAt = text.Truncate(redact.Sanitise(x.Image), maxLabel), text.Truncate(redact.Sanitise(x.Before), maxLabel), min(x.ImageAt, at)
		}
		for k := range x.Patterns {
			if patterns++; patterns <= 2*reportPatterns {
				s.mergePattern(c, &x.Patterns[k].pattern, node, at)
			}
		}
	}
	if _, known := s.nodes[node]; known || len(s.nodes) < maxNodes {
		s.nodes[node] = max(s.nodes[node], min(in.UpTo, at))
	}
	return nil
}

func (s *Sentinel) labelsFit(labels map[string]string) bool {
	own := s.componentLabels(labels)
	if own == nil || !maps.Equal(own, labels) {
		return false
	}
	for _, v := range labels {
		if len(v) > maxLabel {
			return false
		}
	}
	return true
}

func (s *Sentinel) mergePattern(c *component, x *pattern, node string, now int64) {
	if s.ignoresText(c, string(x.Line)) || x.First > x.Last || int64(x.All.Newest) > now/slotSeconds {
		return
	}
	group := s.patternsOf(c)
	item := group.Items[x.key()]
	if item == nil {
		p := &pattern{
			Key: x.Key, Template: shorten(x.Template), Error: shorten(x.Error), Level: x.Level, Words: x.Words, Passes: x.Passes, Waits: x.Waits,
			First: min(x.First, now), Line: text.Truncate(x.Line, maxLine),
		}
		item = group.Add(x.key(), c.party, p, p.size())
	}
	p := item.Value
	p.Level, p.Words, p.Ends = max(p.Level, x.Level), max(p.Words, x.Words), p.Ends || x.Ends
	p.First, p.Last = min(p.First, x.First), max(p.Last, min(x.Last, now))
	if p.Line == "" {
		p.Line = text.Truncate(x.Line, maxLine)
	}
	p.count(node, x.Count)
	p.All.merge(x.All)
	for _, r := range x.Runs[:min(len(x.Runs), maxRuns)] {
		if int64(r.Newest) > now/slotSeconds {
			continue
		}
		if own := p.run(r.Object, int64(r.Newest)*slotSeconds); own != nil {
			own.merge(r.slots)
		}
	}
	for _, e := range x.Examples {
		if p.wantsExample(e.Object) {
			p.addExample(e.Object, text.TruncateMiddle(redact.Sanitise(e.Line), maxExample))
		}
	}
	for _, pod := range x.Pods {
		p.addPod(text.Truncate(redact.Sanitise(pod), maxLabel))
	}
	group.Touch(&item.Entry, c.party)
	c.resize(p)
}

// count adds the number of lines that an agent has counted since its last report.
func (p *pattern) count(node string, n int64) {
	n = max(0, min(n, 1<<40))
	old, known := p.counts[node]
	if !known && len(p.counts) >= maxNoted {
		p.Count = max(p.Count, n)
		return
	}
	if p.counts == nil {
		p.counts = map[string]int64{}
	}
	p.Count += max(0, n-old)
	p.counts[node] = n
}

// ReportTimes returns, for each agent, the time up to which it has reported. Agents without a
// report are absent.
func (s *Sentinel) ReportTimes() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]time.Time, len(s.nodes))
	for node, t := range s.nodes {
		out[node] = unix(t)
	}
	return out
}

// Forget removes the time up to which an agent has reported. It is called when the agent no
// longer reports.
func (s *Sentinel) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, node)
}

// Retain removes the times of all agents except nodes.
func (s *Sentinel) Retain(nodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.nodes, func(node string, _ int64) bool { return !slices.Contains(nodes, node) })
}
