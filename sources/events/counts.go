package events

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
)

const (
	maxCounts  = 8192
	countBytes = 12
)

// counts remembers the counts of the newest Events by their UID.
type counts struct {
	of    map[uint64]uint32 // by hash of the UID
	order []uint64          // a ring, from next on the oldest first
	next  int
}

func newCounts() counts { return counts{of: map[uint64]uint32{}} }

// get returns the count of an Event, 0 if it is not known.
func (c *counts) get(uid string) int { return int(c.of[hash(uid)]) }

func (c *counts) set(uid string, count int) { c.put(hash(uid), uint32(min(count, math.MaxUint32))) }

func (c *counts) put(h uint64, count uint32) {
	_, known := c.of[h]
	c.of[h] = count
	switch {
	case known:
	case len(c.order) < maxCounts:
		c.order = append(c.order, h)
	default:
		delete(c.of, c.order[c.next])
		c.order[c.next] = h
		c.next = (c.next + 1) % maxCounts
	}
}

// hash is the same in every process. The API server chooses UIDs.
func hash(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

// MarshalBinary returns the counts, oldest first.
func (c *counts) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, len(c.order)*countBytes)
	for i := range c.order {
		h := c.order[(c.next+i)%len(c.order)]
		out = binary.LittleEndian.AppendUint64(out, h)
		out = binary.LittleEndian.AppendUint32(out, c.of[h])
	}
	return out, nil
}

// UnmarshalBinary reads the result of MarshalBinary.
func (c *counts) UnmarshalBinary(b []byte) error {
	if len(b)%countBytes != 0 {
		return errors.New("the counts are incomplete")
	}
	*c = newCounts()
	for ; len(b) > 0; b = b[countBytes:] {
		c.put(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
	}
	return nil
}
