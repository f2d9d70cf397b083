package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"crowsnest/daemon/config"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/rules"
	"crowsnest/web"
)

// Reload loads the rules again and makes them active between two blocks of lines. If a pack is
// refused, its last valid version stays active, and the error names the pack and the reason. If
// the configuration itself is invalid, nothing changes.
func (d *Daemon) Reload(ctx context.Context) error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	began := time.Now()
	// The fingerprint is taken before the files are read, so that a change during the load causes another reload.
	files := loader.Fingerprint(d.cfg.Load())
	changed := files != *d.lastTriedHash.Swap(&files)
	d.updateOwned()
	out, err := d.loadAgain(changed)
	now := d.now().UTC()
	last := d.outcome.Load()
	next := &reloadOutcome{status: web.Reload{OK: err == nil, Time: now, Success: last.status.Success}, broken: out.Broken}
	if out.Set == nil {
		next.broken = last.broken
	} else {
		next.status.Success = now
	}
	if err != nil {
		next.status.Error = err.Error()
		d.log.Error().Err(err).Msg("reload: some packs were refused; their last valid versions stay active")
	} else {
		d.log.Info().Int("rules", len(out.Set.Rules)).Dur("took", time.Since(began)).Msg("reload: the new rules are active")
	}
	d.outcome.Store(next)
	d.owned.after = d.now().Add(ownedPause * time.Since(began))
	if out.Set != nil {
		d.reportOwned(out.Broken)
	} else {
		d.owned = ownedFiles{after: d.now().Add(ownedRetry)} // the files were not loaded, so they are tried again
	}
	return err
}

// ownedPause is the number by which the duration of a load is multiplied. Until that time has passed, files of
// namespaces cause no further load, so that nobody keeps the process busy with loading.
const ownedPause = 20

// ownedRetry is the time after which files of namespaces are loaded again, if the configuration or the files of the
// operator made the load fail.
const ownedRetry = time.Minute

// loadAgain loads and compiles everything before it swaps the rules. warn means that warnings are logged.
func (d *Daemon) loadAgain(warn bool) (loader.Loaded, error) {
	cfg := d.cfg.Load()
	if d.opt.ConfigFile != "" {
		fresh, err := config.Read(d.opt.ConfigFile)
		if err != nil {
			return loader.Loaded{}, err
		}
		if d.opt.StorageFlag != "" {
			fresh.Storage.Path = d.opt.StorageFlag
		}
		if d.opt.Web.ExternalURL != "" {
			fresh.Global.ExternalURL = d.opt.Web.ExternalURL
		}
		d.warnOfRestart(cfg, fresh)
		next := *cfg
		next.Rules = fresh.Rules
		next.Rules.ConfigMaps = cfg.Rules.ConfigMaps // as for sources, a change takes effect after a restart
		cfg = &next
	}
	out, err := d.loader.Reload(cfg)
	if err != nil {
		return loader.Loaded{}, err
	}
	rs, err := inforce.New(inforce.InScope(out.Set, cfg.Rules.Scope))
	if err != nil {
		return loader.Loaded{}, fmt.Errorf("compile rules: %w", err)
	}
	before := d.pipe.rules.Load()
	rs.Program.Prepare(before.Program) // so that the first lines need not wait for the preparation
	d.pipe.swapRules(rs)
	d.readAgain(before.Digests)
	d.reported.Store(rs)
	d.cfg.Store(cfg)
	d.saver.saveRules(d.loader.InForce())
	if warn {
		d.logWarnings(out.Set)
	}
	var errs []error
	for _, b := range out.Broken {
		if b.Namespace != "" {
			continue // its owner learns the reason from an Event
		}
		errs = append(errs, fmt.Errorf("pack %s was refused:\n%s", b.Pack, b.Error))
	}
	return out, errors.Join(errs...)
}

func (d *Daemon) warnOfRestart(old, fresh *config.Config) {
	a, b := config.FormatYAML(*old), config.FormatYAML(*fresh)
	old, fresh = new(*old), new(*fresh)
	old.Rules, fresh.Rules = config.RulesConfig{ConfigMaps: old.Rules.ConfigMaps}, config.RulesConfig{ConfigMaps: fresh.Rules.ConfigMaps}
	if a != b && config.FormatYAML(*old) != config.FormatYAML(*fresh) {
		d.log.Warn().Msg("the configuration changed in more than its rules; restart to apply the rest")
	}
}

func (d *Daemon) logWarnings(set *rules.Set) {
	log := d.component("rules")
	for _, w := range set.Warnings {
		log.Warn().Str("file", w.File).Int("line", w.Line).Str("check", w.Check).Str("fix", w.Fix).Msg(w.Message)
	}
}

// Rule files are reloaded when their hash has changed and two consecutive hashes are equal, so that a file is not
// loaded while it is being written. Polling is necessary, because inotify misses events on some file systems and some
// changes of a ConfigMap. An inotify event only makes the next check happen earlier.
const (
	pollRules   = 5 * time.Second
	settleRules = 500 * time.Millisecond
)

// watchRules reloads the rules whenever rule files have changed, until ctx ends.
func (d *Daemon) watchRules(ctx context.Context) {
	hints, closeHints := d.ruleHints()
	defer closeHints()
	last := *d.lastTriedHash.Load()
	configMaps := configMapsLog{}
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
		configMaps.log(d)
		seen := loader.Fingerprint(d.cfg.Load())
		settled := seen == last
		last = seen
		switch {
		case d.ownedChanged():
			_ = d.Reload(ctx) // Reload logs the error
			timer.Reset(pollRules)
		case seen == *d.lastTriedHash.Load():
			timer.Reset(pollRules)
		case !settled:
			timer.Reset(settleRules)
		default:
			_ = d.Reload(ctx) // Reload logs the error; the same files are not tried again
			timer.Reset(pollRules)
		}
	}
}

// ruleHints returns inotify events of the folders with rules, and a function that stops them. Without events, polling
// still finds all changes.
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
