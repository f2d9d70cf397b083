package logdir

import "sync"

type hints struct {
	kick func()
	mu   sync.Mutex
	dirs map[string]bool
	all  bool
}

// add records that a directory has changed. "" means that events were lost.
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

// Take returns the directories in which something changed since the last call, or nil if there are none. The caller
// owns the map. all means that events were lost, so any directory may have changed.
func (w *Watcher) Take() (dirs map[string]bool, all bool) {
	if w == nil {
		return nil, false
	}
	h := w.hints
	h.mu.Lock()
	defer h.mu.Unlock()
	all, h.all = h.all, false
	if len(h.dirs) > 0 {
		dirs, h.dirs = h.dirs, map[string]bool{}
	}
	return dirs, all
}
