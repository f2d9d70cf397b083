package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Batch is a list of records to write to disk.
type Batch struct {
	Records [][]byte
	last    uint64 // number of the newest entry in the batch
}

// PendingRecords returns the records that are not on disk yet. The caller calls MarkWritten once they are.
func (h *History) PendingRecords() Batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b Batch
	for _, it := range h.pending {
		if !it.gone {
			b.Records, b.last = append(b.Records, it.record), it.number
		}
	}
	return b
}

// LiveRecords returns the records of all entries, including those that are not on disk, the
// oldest first. It forgets the entries that ended more than Config.Retention before now.
func (h *History) LiveRecords(now time.Time) Batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := now.Add(-h.cfg.Retention)
	var b Batch
	for _, it := range slices.SortedFunc(maps.Values(h.items), func(a, b *item) int { return cmp.Compare(a.number, b.number) }) {
		if it.entry.EndsAt.Before(oldest) {
			h.remove(it)
			continue
		}
		b.Records, b.last = append(b.Records, it.entry.encode()), it.number
	}
	return b
}

// MarkWritten marks the records of the batch as being on disk.
func (h *History) MarkWritten(b Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = slices.DeleteFunc(h.pending, func(it *item) bool {
		done := it.gone || it.number <= b.last
		if done {
			it.record = nil
		}
		return done
	})
}

// Export returns the entries that are not on disk, so that the snapshot that contains the ends of these episodes has
// the entries too. It returns nil if there are none. If there are more than 1,000 entries, it returns the newest 1,000.
func (h *History) Export() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []json.RawMessage
	for _, it := range h.pending[max(0, len(h.pending)-maxExported):] {
		if !it.gone {
			out = append(out, it.record)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("copy the history: %w", err)
	}
	return b, nil
}

// Import adds entries from Export. These entries may not be on disk.
func (h *History) Import(data []byte) error {
	var in []*Entry
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved history: %w", err)
	}
	for _, e := range in {
		if e != nil {
			h.Add(*e)
		}
	}
	return nil
}
