package objects

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	maxCounts  = 8192
	countBytes = 12 // number of bytes of an encoded count, which consist of a hash of the UID and the count
)

// eventCounts remembers the counts of the newest Events by a hash of their UIDs. The hash is
// the same in every process. It need not resist attacks, because the API server chooses the
// UIDs.
type eventCounts struct {
	*simplelru.LRU[uint64, uint32]
}

func newEventCounts() eventCounts {
	lru, _ := simplelru.NewLRU[uint64, uint32](maxCounts, nil) // the size is positive, so there is no error
	return eventCounts{lru}
}

func hashUID(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

// get returns the count of an Event, or 0 if the Event is unknown.
func (c eventCounts) get(uid string) int {
	count, _ := c.Peek(hashUID(uid))
	return int(count)
}

func (c eventCounts) set(uid string, count int) {
	c.Add(hashUID(uid), uint32(min(count, math.MaxUint32)))
}

// encode returns the counts, from the oldest to the newest.
func (c eventCounts) encode() []byte {
	out := make([]byte, 0, c.Len()*countBytes)
	for _, h := range c.Keys() {
		count, _ := c.Peek(h)
		out = binary.LittleEndian.AppendUint64(out, h)
		out = binary.LittleEndian.AppendUint32(out, count)
	}
	return out
}

// decode adds the counts that encode returned.
func (c eventCounts) decode(b []byte) error {
	if len(b)%countBytes != 0 {
		return errors.New("the counts are incomplete")
	}
	for ; len(b) > 0; b = b[countBytes:] {
		c.Add(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
	}
	return nil
}
