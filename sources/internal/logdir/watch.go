package logdir

import "sync"

// hints collects the directories in which something happened.
type hints struct {
	kick func()
	mu   sync.Mutex
	dirs map[string]bool
	all  bool
}

func newHints(kick func()) *hints { return &hints{kick: kick, dirs: map[string]bool{}} }

// add records a directory; "" means that events were lost.
func (h *hints) add(dir string) {
	h.mu.Lock()
	if dir == "" {
		h.all = true
	} else {
		h.dirs[dir] = true
	}
	h.mu.Unlock()
	h.kick()
}

// Take returns the directories in which something happened since the last call, nil
// if there are none. The caller owns the map. all means that events were lost.
func (w *Watcher) Take() (dirs map[string]bool, all bool) {
	if w == nil {
		return nil, false
	}
	return w.hints.take()
}

func (h *hints) take() (dirs map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, h.all = h.all, false
	if len(h.dirs) > 0 {
		dirs, h.dirs = h.dirs, map[string]bool{}
	}
	return dirs, all
}
