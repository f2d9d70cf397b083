package delivery

import (
	"encoding/json"
	"fmt"

	"crowsnest/sinks"
)

const savedVersion = 1

// saved is a Loop in a snapshot.
type saved struct {
	Version int           `json:"version"`
	Marks   []sinks.Mark  `json:"marks"`
	Packed  [][]byte      `json:"packed,omitempty"`
	Ended   []sinks.Ended `json:"ended,omitempty"` // written by older programs
}

// Export returns what must survive the process: what the receiver accepted, and
// ended episodes that it still has to be sent. It may be called at any time, also
// after Run has returned.
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

// Import reads the result of Export, before the first Notify. After an error none
// of it is used.
func (l *Loop[T]) Import(data []byte) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the saved state of sink %s: %w", l.cfg.Name, err)
	}
	if in.Version != savedVersion {
		return fmt.Errorf("read the saved state of sink %s: version %d, want %d", l.cfg.Name, in.Version, savedVersion)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Import(sinks.Saved{Marks: in.Marks, Ended: append(in.Ended, sinks.UnpackEnded(in.Packed)...)}, l.now())
	return nil
}
