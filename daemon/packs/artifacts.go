package packs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/hits"
	"crowsnest/rules"
)

const (
	// fetchTimeout bounds one visit to a registry.
	fetchTimeout = time.Minute
	// maxRetry bounds the time until the next visit after one that failed.
	maxRetry = time.Minute
	// firstSpread spreads the first visits of processes that start together and have a
	// copy already.
	firstSpread = 30 * time.Second
	// awayAfter is how long a registry may be unreachable before an alert fires, while a
	// copy of the artifact is in force.
	awayAfter = time.Hour
	// lookEvery is how often run checks which artifacts are due.
	lookEvery = 200 * time.Millisecond
)

// Artifacts keeps the copies of the configured artifacts up to date. Each artifact is
// visited independently, so a registry that hangs delays no other. Rules change only
// through a copy and a reload. Safe for concurrent use.
type Artifacts struct {
	host Host
	opt  Options

	mu     sync.Mutex
	visits map[string]*visits // by repository
	// candidate is the new version that is, or was, evaluated as a shadow; nil: none. It
	// stays after a refusal, so that people can still promote it.
	candidate *Shadow
	// unmatched is why an agent does not match the version that the aggregator evaluates
	// as a shadow; nil: it does, or there is none.
	unmatched *hits.ShadowState
}

// visits are those of one artifact.
type visits struct {
	cfg     config.Artifact // changes start again
	busy    bool
	next    time.Time
	checked verified  // the copy, once this process has verified it
	reached time.Time // when the registry last answered; at first, when the visits began
	err     error     // of the last visit
	refused bool      // err is about the artifact, not about reaching it

	installed string // digest of the copy; "": there is none
	answered  bool   // the registry has answered this process
	// named is what the aggregator stated at the last visit, and known whether it stated
	// anything; nil: there was no visit.
	named *hits.Pack
	known bool
}

// verified is an artifact that was accepted.
type verified struct {
	digest string
	artifact.Info
}

// NewArtifacts returns artifacts that visit no registry before Run.
func NewArtifacts(host Host, opt Options) *Artifacts {
	return &Artifacts{host: host, opt: opt, visits: map[string]*visits{}}
}

// Run visits the registries when it is time, until ctx ends. It waits for its visits.
func (as *Artifacts) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		cfg := as.host.Config()
		for _, a := range as.due(cfg) {
			wg.Go(func() { as.visit(ctx, cfg, a) })
		}
		as.judge(ctx)
		as.publish()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// due returns the artifacts to visit now, and marks them as busy.
func (as *Artifacts) due(cfg *config.Config) []*config.Artifact {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.know(cfg)
	now := as.opt.Now()
	var out []*config.Artifact
	for i := range cfg.Rules.Artifacts {
		a := &cfg.Rules.Artifacts[i]
		repository := a.Ref().Repository()
		v := as.visits[repository]
		if as.follows(a) {
			as.plan(v, repository, now)
		}
		if !v.busy && !now.Before(v.next) {
			v.busy = true
			out = append(out, a)
		}
	}
	return out
}

// know makes visits for exactly the configured artifacts. The caller holds mu.
func (as *Artifacts) know(cfg *config.Config) {
	now, known := as.opt.Now(), map[string]bool{}
	for i := range cfg.Rules.Artifacts {
		a := &cfg.Rules.Artifacts[i]
		repository := a.Ref().Repository()
		known[repository] = true
		old := as.visits[repository]
		if old != nil && (old.busy || sameArtifact(old.cfg, *a)) {
			continue
		}
		v := &visits{cfg: *a, next: now, reached: now}
		if installed := loader.Installed(cfg, a); installed != nil {
			v.installed = installed.Digest
			if old == nil && !as.follows(a) {
				v.next = spread(now, a)
			}
		}
		as.visits[repository] = v
	}
	maps.DeleteFunc(as.visits, func(repository string, v *visits) bool { return !known[repository] && !v.busy })
}

// spread returns when to visit the registry of an artifact that many processes visit.
func spread(now time.Time, a *config.Artifact) time.Time {
	return now.Add(rand.N(min(a.Every(), firstSpread)))
}

// plan brings the next visit of an agent forward if the aggregator states something new,
// and postpones it until the aggregator has stated something. The caller holds mu.
func (as *Artifacts) plan(v *visits, repository string, now time.Time) {
	if v.busy {
		return
	}
	named, renamed := as.renamed(v, repository)
	switch {
	case !renamed && v.named == nil:
		v.next = now.Add(lookEvery) // it has not answered yet
	case !renamed:
	case v.named == nil, v.installed == "", as.has(v, named.InForce) && as.has(v, named.Shadow):
		v.next = now // nothing is fetched, or by this agent alone
	default:
		v.next = spread(now, &v.cfg)
	}
	if renamed {
		packs, _ := as.host.Named()
		_, v.known = packs[repository]
		v.named = &named
	}
}

// has reports whether a version need not be fetched. The caller holds mu.
func (as *Artifacts) has(v *visits, digest string) bool {
	return digest == "" || digest == v.installed || as.candidate != nil && as.candidate.next.Digest == digest
}

func sameArtifact(a, b config.Artifact) bool {
	a.Keys = b.Keys
	return reflect.DeepEqual(a, b)
}

// visit asks the registry once, and plans the next visit.
func (as *Artifacts) visit(ctx context.Context, cfg *config.Config, a *config.Artifact) {
	as.mu.Lock()
	v := as.visits[a.Ref().Repository()]
	checked := v.checked
	as.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	fetch := as.fetch
	if as.follows(a) {
		fetch = as.follow
	}
	checked, err := fetch(limited, cfg, a, checked)
	if ctx.Err() != nil {
		err = nil // the process stops
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	now, wait := as.opt.Now(), a.Every()
	v.refused = errors.As(err, new(artifact.Refused))
	if err == nil || v.refused {
		v.reached, v.answered = now, true
	} else {
		wait = min(wait, maxRetry)
	}
	if err != nil && (v.err == nil || v.err.Error() != err.Error()) {
		as.opt.Log.Error().Err(err).Str("artifact", a.Reference).Msg("the rule packs in force stay: there is no newer version that is good")
	}
	v.busy, v.checked, v.err = false, checked, err
	v.next = now.Add(wait - wait/10 + rand.N(max(wait/5, 1)))
}

// fetch installs the artifact that the reference names, unless it is verified already or
// fails a check. It returns the artifact that is verified now.
func (as *Artifacts) fetch(ctx context.Context, cfg *config.Config, a *config.Artifact, checked verified) (verified, error) {
	r, err := as.open(a.Ref(), a)
	if err != nil {
		return checked, err
	}
	defer r.Close()
	digest, err := r.Resolve(ctx)
	if sh := as.candidateOf(a); err == nil && sh != nil {
		if sh.next.Digest == digest && sameArtifact(*sh.artifact, *a) {
			return checked, sh.verdict()
		}
		as.drop(sh) // the registry has another version by now, or the budget changed
	}
	if err != nil || digest == checked.digest && !checked.Expired(as.opt.Now()) {
		return checked, err
	}
	installed := loader.Installed(cfg, a)
	next, err := as.pull(ctx, r, a, installed)
	if err != nil {
		return checked, err
	}
	if installed != nil && installed.Digest == next.Digest {
		return verified{next.Digest, next.Info}, nil
	}
	shadowed, err := as.accept(cfg, a, next, installed != nil)
	if err != nil || shadowed {
		return checked, err
	}
	as.opt.Log.Info().Str("artifact", a.Reference).Str("version", next.Version).Str("digest", next.Digest).Msg("fetched a new version of rule packs")
	_ = as.host.Reload(ctx) // it logs the error, which is about other packs
	return verified{next.Digest, next.Info}, nil
}

// open returns a connection to the registry of an artifact.
func (as *Artifacts) open(ref artifact.Reference, a *config.Artifact) (*artifact.Remote, error) {
	getenv := as.opt.Getenv
	return artifact.Open(ref, artifact.Options{
		PlainHTTP: a.PlainHTTP,
		Username:  getenv("CROWSNEST_REGISTRY_USERNAME"), Password: getenv("CROWSNEST_REGISTRY_PASSWORD"),
	})
}

// pull fetches and verifies a version that may replace the copy, which may be nil.
func (as *Artifacts) pull(ctx context.Context, r *artifact.Remote, a *config.Artifact, installed *artifact.Artifact) (*artifact.Artifact, error) {
	next, err := r.Pull(ctx)
	if err != nil {
		return nil, err
	}
	var last *artifact.Last
	if installed != nil {
		last = installed.Last()
	}
	policy, err := a.Policy(last)
	if err == nil {
		err = policy.Check(next, as.opt.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Reference, err)
	}
	return next, nil
}

// shadowOf returns a shadow of next, nil if no rule fires differently with it.
func (as *Artifacts) shadowOf(cfg *config.Config, a *config.Artifact, next *artifact.Artifact) (*Shadow, error) {
	set, err := as.try(cfg, a, next)
	if err != nil {
		return nil, err
	}
	sh, err := as.newShadow(a, next, inforce.InScope(set, cfg.Rules.Scope))
	if err != nil {
		return nil, artifact.Refused{Reason: err}
	}
	return sh, nil
}

// try returns the rules as they would be with next in force.
func (as *Artifacts) try(cfg *config.Config, a *config.Artifact, next *artifact.Artifact) (*rules.Set, error) {
	set, err := as.opt.Loader.Try(cfg, a, next)
	if err != nil {
		return nil, artifact.Refused{Reason: fmt.Errorf("version %s of %s: %w", next.Version, a.Reference, err)}
	}
	return set, nil
}

// accept installs next as the copy if its packs fit all others. If an earlier version
// is in force, the artifact has a shadow and its rules differ, accept evaluates next
// as a shadow first.
func (as *Artifacts) accept(cfg *config.Config, a *config.Artifact, next *artifact.Artifact, newer bool) (shadowed bool, err error) {
	as.opt.Loading.Lock()
	defer as.opt.Loading.Unlock()
	if newer && a.Shadow != nil {
		sh, err := as.shadowOf(cfg, a, next)
		if err != nil {
			return false, err
		}
		if sh != nil && sh.refusedBefore(cfg) {
			as.mu.Lock()
			defer as.mu.Unlock()
			as.candidate = sh
			return true, sh.verdict()
		}
		if sh != nil {
			return true, as.begin(sh)
		}
	} else if _, err := as.try(cfg, a, next); err != nil {
		return false, err
	}
	return false, as.install(cfg, a, next)
}

func (as *Artifacts) install(cfg *config.Config, a *config.Artifact, next *artifact.Artifact) error {
	if !as.host.Keeps() {
		return errors.New("its copy cannot be saved: another instance uses the folder of the state")
	}
	if err := loader.Install(cfg, a, next); err != nil {
		return err
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if v := as.visits[a.Ref().Repository()]; v != nil {
		v.installed = next.Digest
	}
	return nil
}
