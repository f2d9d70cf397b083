package rules

import (
	"runtime"

	"crowsnest/internal/codec"
)

// CompactRules moves the data of the rules into adjacent memory. Parsing leaves that data
// scattered among garbage, which keeps several times as much memory in use. The rules must not
// be in use yet, nothing else may hold parts of them, and their positions must have been
// removed. It takes some milliseconds and runs a garbage collection.
func CompactRules(all []*Rule) {
	if len(all) == 0 {
		return
	}
	// Each rule has its own Codec, because the time of a Codec grows faster than the size of
	// its texts.
	stored := make([]string, len(all))
	w := &documentCodec{numbers: map[string]int{}}
	for i, r := range all {
		w.Codec = codec.NewWriter()
		w.storeRule(r)
		stored[i] = w.Result()
	}
	for _, r := range all {
		*r = Rule{Pack: r.Pack, File: r.File, Places: r.Places, Disabled: r.Disabled, Tests: r.Tests, Packed: r.Packed, maxLine: r.maxLine}
	}
	runtime.GC() // The collection keeps the new data out of the gaps that the old data leaves.
	in := &documentCodec{}
	for i, r := range all {
		in.Codec = codec.NewReader(stored[i])
		in.storeRule(r)
	}
}
