package daemon

import (
	"context"
	"slices"
	"time"

	"crowsnest/daemon/config"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/packs"
	"crowsnest/episodes"
	"crowsnest/hits"
	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/web"
)

// packsHost is the daemon as the packs use it.
type packsHost struct{ d *Daemon }

func (h packsHost) Config() *config.Config           { return h.d.cfg.Load() }
func (h packsHost) InForce() *inforce.Rules          { return h.d.pipe.rules.Load() }
func (h packsHost) Reload(ctx context.Context) error { return h.d.Reload(ctx) }
func (h packsHost) Keeps() bool                      { return h.d.saver.keeps() }
func (h packsHost) Shadow() *packs.Shadow            { return h.d.pipe.shadow.Load() }
func (h packsHost) UseShadow(s *packs.Shadow)        { h.d.pipe.shadowing(s) }
func (h packsHost) Compare(s *packs.Shadow)          { h.d.compare(s) }
func (h packsHost) HasAgents() bool                  { return len(h.d.agents()) > 0 }
func (h packsHost) Remote() bool                     { return h.d.pipe.concluder.peer().remote }
func (h packsHost) Unsaved() int                     { return h.d.pipe.concluder.peer().unsaved }

func (h packsHost) State(versions map[string]hits.Pack) {
	for _, a := range h.d.agents() {
		a.UsePacks(versions)
	}
}

func (h packsHost) Forward(found []matcher.Hit, now time.Time) {
	h.d.pipe.concluder.Take(found, now)
}

func (h packsHost) Named() (versions map[string]hits.Pack, answered bool) {
	return h.d.pipe.concluder.packs()
}

func (d *Daemon) newArtifacts() *packs.Artifacts {
	return packs.NewArtifacts(packsHost{d}, packs.Options{
		Log: d.component("artifacts"), Now: d.now, Getenv: d.opt.Getenv, Loader: d.loader, Loading: &d.reloading,
		Engine: d.engineCfg, Grace: d.opt.grace,
	})
}

// brokenPacks returns the packs and artifacts whose newest version is not in force, and
// the artifacts in force that have expired.
func (d *Daemon) brokenPacks() []web.BrokenPack {
	outcome := d.outcome.Load()
	return append(slices.Clone(outcome.broken), d.artifacts.Broken(outcome.copies)...)
}

// shadowing starts a shadow, or ends it with nil.
func (p *pipeline) shadowing(s *packs.Shadow) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.shadow.Store(s)
}

// compare begins the comparison of a shadow, or begins it again. The clock of a node may
// be ahead of this one's: lines that are stamped before now plus ahead are not compared.
func (p *pipeline) compare(s *packs.Shadow, ahead time.Duration) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	s.Begin(p.addSources, p.engine.Episodes(now), now.Add(ahead), now)
}

// addSources adds all sources to the engine of a shadow. The caller holds mu.
func (p *pipeline) addSources(to *episodes.Engine) {
	for _, src := range p.sources {
		names := []string{src.Name()}
		if multi, ok := src.(sources.MultiSource); ok {
			names = multi.Members()
		}
		for _, name := range names {
			to.AddSource(name, lateness(src), serves(name, src))
			if t, known := p.watermarks[name]; known {
				to.AdvanceWatermark(name, t, p.lagging[name]...)
			}
		}
	}
}
