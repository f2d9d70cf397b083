package delivery

import (
	"encoding/json"
	"fmt"

	"crowsnest/sinks"
)

const savedVersion = 1

type saved struct {
	Version int          `json:"version"`
	Marks   []sinks.Mark `json:"marks"`
	Packed  [][]byte     `json:"packed,omitempty"`
}

// Export returns the state that must survive the process. It contains the messages that the receiver accepted, and the
// ended episodes that still have to be sent. It may be called at any time, even after Run has returned.
func (l *Loop[T]) Export() ([]byte, error) {
	l.mu.Lock()
	st := l.state.Export(l.now())
	l.mu.Unlock()
	out := saved{Version: savedVersion, Marks: st.Marks}
	var err error
	if out.Packed, err = l.ended.Encode(st.Ended); err != nil {
		return nil, fmt.Errorf("save sink %s: %w", l.cfg.Name, err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("save sink %s: %w", l.cfg.Name, err)
	}
	return b, nil
}

// Import sets the state that Export returned. It must be called before the first Notify. After an error nothing is set.
func (l *Loop[T]) Import(data []byte) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", l.cfg.Name, err)
	}
	if in.Version > savedVersion { // version 0 is the form without ended episodes that the sink stdout wrote before
		return fmt.Errorf("read the saved state of sink %s: version %d, want %d", l.cfg.Name, in.Version, savedVersion)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Import(sinks.SavedState{Marks: in.Marks, Ended: sinks.UnpackEnded(in.Packed)}, l.now())
	return nil
}
