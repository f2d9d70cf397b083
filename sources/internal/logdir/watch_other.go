//go:build !linux

package logdir

import "errors"

// Watcher does nothing on this system. Polling finds every change.
type Watcher struct{ hints *hints }

// NewWatcher returns an error.
func NewWatcher(func(), func(error)) (*Watcher, error) {
	return nil, errors.New("watch: not available on this system")
}

// Add reports that the directory is not watched.
func (w *Watcher) Add(string, bool) bool { return false }

// Drain does nothing.
func (w *Watcher) Drain() {}

// Run does nothing.
func (w *Watcher) Run() {}

// Close does nothing.
func (w *Watcher) Close() {}
