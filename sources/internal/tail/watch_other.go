//go:build !linux

package tail

import "errors"

// watcher does nothing on this system: polling finds everything.
type watcher struct{}

func newWatcher(func(dir string), func(error)) (*watcher, error) {
	return nil, errors.New("watch: not available on this system")
}

func (w *watcher) add(string, bool) bool { return false }
func (w *watcher) drain()                {}
func (w *watcher) run()                  {}
func (w *watcher) close()                {}
