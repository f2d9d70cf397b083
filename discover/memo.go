package discover

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"crowsnest/internal/lineshape"
	"crowsnest/matcher"
)

// memo remembers what lines of a shape mean: most lines of a log differ from others only in
// numbers, times and ids. Its hash is seeded, so that nobody can make a complaint look like
// another line.
type memo struct {
	seed   maphash.Seed
	of     map[uint64]meaning
	shapes *lineshape.Shapes
	shape  []byte
}

// meaning is what f.line finds out about a line, as far as that depends on its shape.
type meaning struct {
	pattern   *pattern // nil: it is no complaint
	level     Level
	idle      bool // it only waits
	continues bool // it continues the line before it
	parsed    bool // pattern, level and idle are known
}

// maxMemo bounds the shapes in memory: some 3 MB.
const maxMemo = 1 << 16

func newMemo() memo {
	return memo{seed: maphash.MakeSeed(), of: map[uint64]meaning{}, shapes: shapes()}
}

// shapes computes the shapes of lines. The values of the fields that readLine reads stay, and
// so do names such as x509 that masking preserves.
var shapes = sync.OnceValue(func() *lineshape.Shapes {
	return lineshape.New(slices.Concat([]string{typeKey}, messageKeys, errorKeys, levelKeys), slices.Collect(maps.Keys(fixedWords)))
})

// key returns the hash of the shape of a line.
func (m *memo) key(line string) uint64 {
	m.shape = m.shapes.Append(m.shape[:0], line)
	return maphash.Bytes(m.seed, m.shape)
}

// keys appends the keys of lines; those of covered ones do not matter.
func (m *memo) keys(out []uint64, lines []matcher.Line) []uint64 {
	for i := range lines {
		key := uint64(0)
		if !lines[i].Covered {
			key = m.key(lines[i].Text)
		}
		out = append(out, key)
	}
	return out
}

// put remembers the meaning of a shape.
func (m *memo) put(key uint64, x meaning) {
	if len(m.of) >= maxMemo {
		clear(m.of)
	}
	m.of[key] = x
}

// again processes a line whose shape is known. It returns false if the line has to be parsed.
func (f *Finder) again(fl *streamState, l *matcher.Line, x meaning) bool {
	p := x.pattern
	switch {
	case fl.text && x.continues:
		return true
	case !x.parsed:
		return false
	case p == nil:
		fl.text = true
		return true
	case p.element == nil || p.judgement.patience&(retries|waits) != 0: // evicted, or its object counts
		return false
	}
	fl.text = true
	f.tree.recent.MoveToFront(p.element)
	f.counted(p, fl, l, &parsedLine{Level: x.level}, x.idle)
	return true
}
