package matcher

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/text"
)

// MaxLagging bounds the lagging streams that a source or an agent names. If there are more,
// one without labels stands for all of them.
const MaxLagging = 32

// LaggingStream is a stream that was read up to an earlier time than the other streams of
// its source, because its log cannot be read.
type LaggingStream struct {
	// Labels identify the stream. Nil stands for any stream of the source.
	Labels Labels `json:"labels,omitempty"`
	// Unknown names the labels whose values are not known.
	Unknown  []string  `json:"unknown,omitempty"`
	ReadUpTo time.Time `json:"read_up_to"`
}

// String names the log for people: namespace/pod/container, or the path of the file.
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
	return text.Printable(cmp.Or(s.Labels["filename"], text.Labels(s.Labels)))
}

// BoundLagging returns the lagging streams, or beyond MaxLagging one that stands for all
// streams and was read as far as the one that lags most.
func BoundLagging(all []LaggingStream) []LaggingStream {
	if len(all) <= MaxLagging {
		return all
	}
	oldest := slices.MinFunc(all, func(a, b LaggingStream) int { return a.ReadUpTo.Compare(b.ReadUpTo) })
	return []LaggingStream{{ReadUpTo: oldest.ReadUpTo}}
}
