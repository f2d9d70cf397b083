package matcher

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
)

// MaxLagging is the maximum number of lagging streams that a source or an agent reports.
const MaxLagging = 64

// LaggingStream is a stream that was read less far than the other streams of its source, because its log cannot be
// read.
type LaggingStream struct {
	// Labels identify the stream. Nil means any stream of the source.
	Labels Labels `json:"labels,omitempty"`
	// UnknownLabels lists the names of labels whose values are unknown.
	UnknownLabels []string  `json:"unknown,omitempty"`
	ReadUpTo      time.Time `json:"read_up_to"`
}

// String returns the name of the log for people, which is namespace/pod/container or the path of the file.
func (s LaggingStream) String() string {
	var parts []string
	for _, name := range []string{"namespace", "pod", "container"} {
		if v := s.Labels[name]; v != "" {
			parts = append(parts, v)
		}
	}
	if len(parts) > 0 {
		return text.Printable(strings.Join(parts, "/"))
	}
	return text.Printable(cmp.Or(s.Labels["filename"], text.FormatLabels(s.Labels)))
}

// BoundLagging reduces a list of lagging streams to at most MaxLagging entries. Their order depends only on their
// labels. If there are too many streams, one entry replaces all streams of a namespace, beginning with the namespace
// that has the most. If there are still too many, one entry replaces all streams.
func BoundLagging(all []LaggingStream) []LaggingStream {
	if len(all) == 0 {
		return nil
	}
	groups := groupLagging(all)
	if len(groups) > MaxLagging {
		return []LaggingStream{{ReadUpTo: earliestReadUpTo(all)}}
	}
	bySize := make([]int, len(groups))
	for i := range groups {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(i, k int) int { return cmp.Compare(len(groups[k]), len(groups[i])) })
	for n := len(all); n > MaxLagging; bySize = bySize[1:] {
		i := bySize[0]
		n -= len(groups[i]) - 1
		groups[i] = []LaggingStream{mergeLagging(groups[i])}
	}
	return slices.Concat(groups...)
}

// groupLagging groups the streams of the same namespace. The labels of the streams of a group differ only in labels
// that distinguish logs, such as pod and container.
func groupLagging(all []LaggingStream) [][]LaggingStream {
	type named struct {
		group, name string
		LaggingStream
	}
	var order []named
	for _, s := range all {
		common := maps.Clone(s.Labels)
		for _, name := range []string{"pod", "container", "filename"} {
			delete(common, name)
		}
		order = append(order, named{text.FormatLabels(common), text.FormatLabels(s.Labels), s})
	}
	slices.SortFunc(order, func(a, b named) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.name, b.name))
	})
	var out [][]LaggingStream
	for i, s := range order {
		if i == 0 || s.group != order[i-1].group {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], s.LaggingStream)
	}
	return out
}

// mergeLagging returns one stream that replaces a group of streams. Its progress is the smallest progress in the group.
// Labels in which the streams differ are unknown.
func mergeLagging(all []LaggingStream) LaggingStream {
	if slices.ContainsFunc(all, func(s LaggingStream) bool { return s.Labels == nil }) {
		return LaggingStream{ReadUpTo: earliestReadUpTo(all)}
	}
	out := LaggingStream{Labels: maps.Clone(all[0].Labels), ReadUpTo: earliestReadUpTo(all)}
	unknown := map[string]bool{}
	for _, s := range all {
		for _, name := range s.UnknownLabels {
			unknown[name] = true
		}
		for _, labels := range []Labels{s.Labels, all[0].Labels} {
			for name := range labels {
				unknown[name] = unknown[name] || s.Labels[name] != all[0].Labels[name]
			}
		}
	}
	maps.DeleteFunc(unknown, func(_ string, is bool) bool { return !is })
	maps.DeleteFunc(out.Labels, func(name, _ string) bool { return unknown[name] })
	out.UnknownLabels = slices.Sorted(maps.Keys(unknown))
	return out
}

func earliestReadUpTo(all []LaggingStream) time.Time {
	return slices.MinFunc(all, func(a, b LaggingStream) int { return a.ReadUpTo.Compare(b.ReadUpTo) }).ReadUpTo
}
