package daemon

import (
	"cmp"
	"context"
	"time"

	"crowsnest/agent/client"
	"crowsnest/daemon/component"
	"crowsnest/daemon/configmaps"
	"crowsnest/rules"
	"crowsnest/web"
)

// The rule files of namespaces come from ConfigMaps, or in an agent from its aggregator. Until the first answer, the
// files of the last run stay active, or in a standby the files of its leader.

// firstConfigMaps is the time for which a start without rule files of the last run waits for the ConfigMaps, because
// saved episodes end if their rules are not loaded.
const firstConfigMaps = 10 * time.Second

// configMapsKey names the setting in alerts and messages.
const configMapsKey = "rules.config_maps"

// ownedFiles describes which rule files of namespaces the loader has. It is guarded by Daemon.reloading.
type ownedFiles struct {
	version uint64    // version of the ConfigMaps
	id      string    // identifier of the files of the aggregator or the leader
	after   time.Time // earliest time of the next load that only a change of these files causes
}

func (d *Daemon) newConfigMaps(cfg *configmaps.Settings) *configmaps.Watcher {
	if cfg == nil {
		return nil
	}
	return configmaps.New(*cfg, configmaps.Options{Now: d.now, WritesEvents: d.pair.isLeading, Cluster: d.ownedCluster()})
}

// ownedCluster returns the cluster of the ConfigMaps, to which their rules are bound. A receiver adds the external
// label cluster to alerts that lack it, so every alert of these rules has this cluster.
func (d *Daemon) ownedCluster() string {
	return cmp.Or(d.opt.Cfg.Rules.ConfigMaps.Cluster, d.opt.Cfg.Global.ExternalLabels["cluster"])
}

// usesOwnedRules reports whether this process has rule files of namespaces.
func (d *Daemon) usesOwnedRules() bool {
	return d.configMaps != nil || len(component.SettingsOf[client.Config](d.opt.Cfg.Sinks)) > 0
}

// keptFiles returns the rule files of the last run that may be used now. The files of namespaces among them have passed
// their tests.
func (d *Daemon) keptFiles(files []rules.File) (out []rules.File) {
	for _, f := range files {
		if f.WithoutTests = f.Namespace != ""; f.WithoutTests && d.configMaps != nil {
			f.Cluster = d.ownedCluster()
		}
		if f.Namespace == "" || d.usesOwnedRules() {
			out = append(out, f)
		}
	}
	return out
}

// updateOwned passes the newest rule files of namespaces to the loader. The caller holds reloading.
func (d *Daemon) updateOwned() {
	if r, isAgent := d.pipe.concluder.(*remoteConcluder); isAgent {
		if id, files := r.sink.OwnedRules(); id != "" {
			d.owned.id = id
			d.loader.SetOwned(withoutTests(files))
		}
		return
	}
	if d.configMaps == nil {
		return
	}
	if d.configMaps.IsListed() {
		version, files := d.configMaps.Files()
		d.owned.version = version
		d.loader.SetOwned(files)
	} else if id, files := d.pair.leaderRules(); id != "" {
		d.owned.id = id
		d.loader.SetOwned(d.keptFiles(files))
	}
}

// withoutTests returns the files without their tests, which the aggregator has run.
func withoutTests(files []rules.File) []rules.File {
	out := make([]rules.File, len(files))
	for i, f := range files {
		f.WithoutTests = true
		out[i] = f
	}
	return out
}

// reportOwned publishes which rule files of namespaces are active. The caller holds reloading.
func (d *Daemon) reportOwned(broken []web.BrokenPack) {
	d.offerOwned()
	if d.configMaps == nil || !d.configMaps.IsListed() {
		return
	}
	refused := map[string]string{}
	for _, b := range broken {
		if b.Namespace != "" {
			refused[b.File] = b.Error
		}
	}
	d.configMaps.Report(refused)
}

// offerOwned passes the active rule files of namespaces to the agents and the standby. The caller holds reloading.
func (d *Daemon) offerOwned() {
	active := d.loader.OwnedInForce()
	if d.configMaps != nil && !d.configMaps.IsListed() && len(active) == 0 {
		return
	}
	for _, s := range d.agentSources() {
		s.OfferRules(active)
	}
	d.pair.offerRules(active)
}

// ownedChanged reports whether rule files of namespaces must be loaded now.
func (d *Daemon) ownedChanged() bool {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if d.now().Before(d.owned.after) {
		return false
	}
	if r, isAgent := d.pipe.concluder.(*remoteConcluder); isAgent {
		id, _ := r.sink.OwnedRules()
		return id != d.owned.id
	}
	if d.configMaps == nil {
		return false
	}
	if d.configMaps.IsListed() {
		return d.configMaps.HasChanged(d.owned.version)
	}
	id, _ := d.pair.leaderRules()
	return id != "" && id != d.owned.id
}

// awaitConfigMaps loads the ConfigMaps before the saved episodes are restored, if there are no rule files of the last
// run.
func (d *Daemon) awaitConfigMaps(ctx context.Context) {
	if d.configMaps == nil {
		return
	}
	if d.ownedChanged() {
		_ = d.Reload(ctx) // Reload logs the error
	}
	if len(d.loader.OwnedInForce()) == 0 {
		timer := time.NewTimer(firstConfigMaps)
		defer timer.Stop()
		select {
		case <-d.configMaps.Listed():
		case <-timer.C:
			why, _ := d.configMaps.Failure()
			d.log.Warn().Str("error", why).Msg("the rules in ConfigMaps are not known yet: the API server does not answer, and there are none of an earlier run; they take effect when they are read")
		case <-ctx.Done():
		}
	}
	if d.ownedChanged() {
		_ = d.Reload(ctx) // Reload logs the error
	}
}

// brokenPacks returns the refused packs. If the ConfigMaps could not be read for a while, they count as one refused
// pack.
func (d *Daemon) brokenPacks() []web.BrokenPack {
	out := d.outcome.Load().broken
	if d.configMaps == nil {
		return out
	}
	if why, since := d.configMaps.Failure(); why != "" && d.now().Sub(since) >= d.opt.Cfg.Global.BlindAfter {
		out = append(out[:len(out):len(out)], web.BrokenPack{Pack: configMapsKey, Error: why, Missing: !d.configMaps.IsListed()})
	}
	return out
}

// configMapsLog logs changes of the watch of ConfigMaps.
type configMapsLog struct{ failure, eventError string }

func (l *configMapsLog) log(d *Daemon) {
	if d.configMaps == nil {
		return
	}
	log := d.component("rules")
	switch why, _ := d.configMaps.Failure(); {
	case why != "" && l.failure == "":
		log.Warn().Str("error", why).Msg("the ConfigMaps with rules cannot be read: the rules that were read before stay active")
		l.failure = why
	case why == "" && l.failure != "":
		log.Info().Msg("the ConfigMaps with rules can be read again")
		l.failure = ""
	}
	if why := d.configMaps.Stats().EventError; why != l.eventError {
		if l.eventError = why; why != "" {
			log.Warn().Str("error", why).Msg("the owner of a ConfigMap does not learn that its rules were refused")
		}
	}
}
