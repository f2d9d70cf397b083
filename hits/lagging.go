package hits

import (
	"encoding/binary"
	"maps"
	"slices"

	"crowsnest/matcher"
)

// maxStreamLabels is the maximum number of labels of a lagging stream.
const maxStreamLabels = 64

// appendLagging appends lagging streams. If they are larger than maxLagging, one that stands
// for all streams takes their place.
func appendLagging(b []byte, all []matcher.LaggingStream) []byte {
	out := encodeLagging(b, matcher.BoundLagging(all))
	if len(out)-len(b) > maxLagging {
		oldest := slices.MinFunc(all, func(x, y matcher.LaggingStream) int { return x.ReadUpTo.Compare(y.ReadUpTo) })
		return encodeLagging(b, []matcher.LaggingStream{{ReadUpTo: oldest.ReadUpTo}})
	}
	return out
}

func encodeLagging(b []byte, all []matcher.LaggingStream) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, s := range all {
		b = binary.AppendVarint(b, nanos(s.ReadUpTo))
		if s.Labels == nil || len(s.Labels) > maxStreamLabels {
			b = append(b, 0)
			continue
		}
		unknown := slices.Clone(s.Unknown)
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(len(s.Labels)))
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			value := s.Labels[name]
			if len(value) > maxValue {
				unknown, value = append(unknown, name), ""
			}
			b = appendString(appendString(b, name), value)
		}
		b = binary.AppendUvarint(b, uint64(len(unknown)))
		for _, name := range unknown {
			b = appendString(b, name)
		}
	}
	return b
}

func (r *reader) lagging() []matcher.LaggingStream {
	all := make([]matcher.LaggingStream, r.count("lagging streams", matcher.MaxLagging))
	for i := range all {
		s := &all[i]
		s.ReadUpTo = at(r.varint())
		if r.uvarint() == 0 {
			continue
		}
		s.Labels = matcher.Labels{}
		for range r.count("labels", maxStreamLabels) {
			name := r.text("name", maxValue)
			s.Labels[name] = r.text("value", maxValue)
		}
		for range r.count("labels", 2*maxStreamLabels) {
			s.Unknown = append(s.Unknown, r.text("name", maxValue))
		}
	}
	return all
}
