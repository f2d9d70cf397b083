package watermark

import (
	"maps"
	"slices"

	"crowsnest/matcher"
)

// Lag describes a stream that was read less far than its source.
type Lag struct {
	Stream matcher.LaggingStream

	name               string
	readUpTo, lateness int64
}

// NewLag returns the lag of a stream that was read up to a time.
func NewLag(s matcher.LaggingStream, readUpTo int64) Lag { return Lag{Stream: s, readUpTo: readUpTo} }

// Watermark returns the event time up to which the stream has been read.
func (l *Lag) Watermark() int64 { return l.readUpTo - l.lateness }

// OnHold reports whether conclusions that wait for the stream are on hold at now.
func (l *Lag) OnHold(now int64) bool { return l.readUpTo < now-int64(onHoldAfter) }

// Name returns the names of the source and the stream, as people see them.
func (l *Lag) Name() string { return l.name }

// HasLagging reports whether a source has lagging streams.
func (s *Sources) HasLagging() bool {
	return slices.ContainsFunc(s.sources, func(x *source) bool { return len(x.lags) > 0 })
}

func (l *Lag) isSame(o *Lag) bool {
	return maps.Equal(l.Stream.Labels, o.Stream.Labels) && slices.Equal(l.Stream.Unknown, o.Stream.Unknown)
}

func (l *Lag) move(delta, now int64) { l.readUpTo = min(max(l.readUpTo+delta, 0), now) }
