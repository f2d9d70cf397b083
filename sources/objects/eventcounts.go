package objects

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
)

const (
	maxCounts  = 8192
	countBytes = 12 // bytes of an encoded count, which are a hash of the UID and the count
)

// eventCounts remembers the counts of the newest Events, by a hash of their UIDs that is
// the same in every process. The API server chooses UIDs.
type eventCounts struct {
	byHash map[uint64]uint32
	order  []uint64 // the oldest first
}

func newEventCounts() eventCounts { return eventCounts{byHash: map[uint64]uint32{}} }

func hashUID(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

// get returns the count of an Event, 0 if it is not known.
func (c *eventCounts) get(uid string) int { return int(c.byHash[hashUID(uid)]) }

func (c *eventCounts) set(uid string, count int) {
	c.put(hashUID(uid), uint32(min(count, math.MaxUint32)))
}

func (c *eventCounts) put(h uint64, count uint32) {
	if _, known := c.byHash[h]; !known {
		c.order = append(c.order, h)
	}
	c.byHash[h] = count
	if len(c.order) > maxCounts {
		delete(c.byHash, c.order[0])
		c.order = c.order[1:]
	}
}

// encode returns the counts, the oldest first.
func (c *eventCounts) encode() []byte {
	out := make([]byte, 0, len(c.order)*countBytes)
	for _, h := range c.order {
		out = binary.LittleEndian.AppendUint64(out, h)
		out = binary.LittleEndian.AppendUint32(out, c.byHash[h])
	}
	return out
}

// decode adds the counts that encode returned.
func (c *eventCounts) decode(b []byte) error {
	if len(b)%countBytes != 0 {
		return errors.New("the counts are incomplete")
	}
	for ; len(b) > 0; b = b[countBytes:] {
		c.put(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
	}
	return nil
}
