package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"crowsnest/daemon/loader"
)

// Rule files are reloaded when their hash has changed and is the same twice in a row, so that a
// file is not loaded while it is being written. inotify only makes the check happen earlier,
// because it misses events on some file systems, and some changes of a ConfigMap.
const (
	pollRules   = 5 * time.Second
	settleRules = 500 * time.Millisecond
)

// watchRules reloads when rule files have changed, until ctx ends.
func (d *Daemon) watchRules(ctx context.Context) {
	hints, closeHints := d.ruleHints()
	defer closeHints()
	last := *d.tried.Load()
	timer := time.NewTimer(pollRules)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints:
			timer.Reset(settleRules)
			continue
		case <-timer.C:
		}
		seen := loader.Fingerprint(d.cfg.Load())
		settled := seen == last
		last = seen
		switch {
		case seen == *d.tried.Load():
			timer.Reset(pollRules)
		case !settled:
			timer.Reset(settleRules)
		default:
			_ = d.Reload(ctx) // Reload logs the error; there is no retry
			timer.Reset(pollRules)
		}
	}
}

// ruleHints returns inotify events of folders with rules. Without them, polling finds all changes.
func (d *Daemon) ruleHints() (<-chan fsnotify.Event, func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		d.log.Info().Err(err).Msg("rule files cannot be watched, only polled, so changes take effect later")
		return nil, func() {}
	}
	cfg := d.cfg.Load()
	var dirs []string
	for _, p := range slices.Concat(cfg.Rules.Paths, cfg.Rules.Overrides) {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			p = filepath.Dir(p)
		}
		dirs = append(dirs, p)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if err := w.Add(dir); err != nil {
			d.log.Info().Err(err).Str("folder", dir).Msg("rule files cannot be watched, only polled, so changes take effect later")
		}
	}
	go func() {
		for range w.Errors { //nolint:revive // polling finds changes whose events were lost
		}
	}()
	return w.Events, func() {
		w.Close() //nolint:errcheck // nothing can be lost here
	}
}
