package courier

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"crowsnest/sinks"
)

const (
	savedVersion = 1
	maxSaved     = 512 << 10 // bytes of ended episodes that are saved
)

// saved is a courier in a snapshot.
type saved struct {
	Version int `json:"version"`
	sinks.Saved
}

// Export returns what has to outlive the process: what the receiver has taken,
// and ended episodes that it still has to be told. It may be called at any time,
// also after Run has returned.
func (c *Courier[T]) Export() ([]byte, error) {
	c.mu.Lock()
	out := saved{Version: savedVersion, Saved: c.state.Export(c.now())}
	c.mu.Unlock()
	out.Ended = withinBound(out.Ended)
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("save sink %s: %w", c.cfg.Name, err)
	}
	return b, nil
}

// withinBound keeps what ended last.
func withinBound(in []sinks.Ended) []sinks.Ended {
	slices.SortFunc(in, func(a, b sinks.Ended) int {
		return cmp.Or(b.EndsAt.Compare(a.EndsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	size := 0
	for i, ep := range in {
		if size += ep.Size(); size > maxSaved {
			return in[:i]
		}
	}
	return in
}

// Import takes what Export returned, before the first Notify. An error means
// that nothing of it is used.
func (c *Courier[T]) Import(data []byte) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", c.cfg.Name, err)
	}
	if in.Version != savedVersion {
		return fmt.Errorf("read the saved state of sink %s: version %d, want %d", c.cfg.Name, in.Version, savedVersion)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Import(in.Saved, c.now())
	return nil
}
