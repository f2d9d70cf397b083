package tail

import "sync"

// hints collects which directories something happened in.
type hints struct {
	kick func()
	mu   sync.Mutex
	dirs map[string]bool
	all  bool
}

func newHints(kick func()) *hints { return &hints{kick: kick, dirs: map[string]bool{}} }

// add notes a directory; "" means that events were lost.
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

func (h *hints) take() (dirs map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dirs, all = h.dirs, h.all
	if len(dirs) > 0 {
		h.dirs = map[string]bool{}
	}
	h.all = false
	return dirs, all
}
