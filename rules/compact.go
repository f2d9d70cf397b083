package rules

import (
	"runtime"

	"crowsnest/internal/codec"
)

// Compact moves what the rules keep to memory next to each other. What parsing leaves is between
// what it throws away, and keeps several times as much memory in use. The rules must not be
// in use yet; nothing else may have parts of them. It takes some milliseconds, and collects
// garbage. Positions must have been removed.
func Compact(all []*Rule) {
	if len(all) == 0 {
		return
	}
	// Each rule has a Codec of its own: the time that one takes grows faster than its texts.
	stored := make([]string, len(all))
	w := &documentCodec{numbers: map[string]int{}}
	for i, r := range all {
		w.Codec = codec.NewWriter()
		w.rule(r)
		stored[i] = w.Result()
	}
	for _, r := range all {
		*r = Rule{Pack: r.Pack, File: r.File, Places: r.Places, Disabled: r.Disabled, Tests: r.Tests, Packed: r.Packed, maxLine: r.maxLine}
	}
	runtime.GC() // else new parts would take the places of old ones
	in := &documentCodec{}
	for i, r := range all {
		in.Codec = codec.NewReader(stored[i])
		in.rule(r)
	}
}
