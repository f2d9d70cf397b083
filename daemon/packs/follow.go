package packs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/hits"
)

// With agents, the aggregator decides which version of an artifact with a shadow is in
// force and which is evaluated beside it. It states both in its answers to reports. An
// agent fetches and verifies these versions by their digest, and does not follow the tag.

const (
	// shadowWaits is how long agents may lack a version that is evaluated as a shadow
	// before an alert fires.
	shadowWaits = 15 * time.Minute
	// maxShadowUnsaved is how many bytes an agent may keep for the aggregator while it
	// matches a shadow: the hits of a version that matches too much must not stop reading.
	maxShadowUnsaved = 4 << 20
)

// follows reports whether the aggregator decides about the versions of an artifact.
func (as *Artifacts) follows(a *config.Artifact) bool {
	return a.Shadow != nil && as.host.Remote()
}

// Announce makes the first statement to agents.
func (as *Artifacts) Announce() {
	as.mu.Lock()
	as.know(as.host.Config())
	as.mu.Unlock()
	as.publish()
}

// publish states the versions of artifacts to agents.
func (as *Artifacts) publish() {
	if !as.host.HasAgents() {
		return
	}
	packs := map[string]hits.Pack{}
	sh := as.host.Shadow()
	as.mu.Lock()
	for repository, v := range as.visits {
		if v.cfg.Shadow == nil {
			continue
		}
		p := hits.Pack{InForce: v.installed, Undecided: !v.answered}
		if sh != nil && sh.artifact.Ref().Repository() == repository {
			p.Shadow, p.Undecided = sh.next.Digest, false
		}
		packs[repository] = p
	}
	as.mu.Unlock()
	as.host.State(packs)
}

// renamed returns what the aggregator states about an artifact, and whether there is
// something to do about it: it answered and states something else than at the last
// visit.
func (as *Artifacts) renamed(v *visits, repository string) (hits.Pack, bool) {
	packs, answered := as.host.Named()
	p, known := packs[repository]
	return p, answered && (v.named == nil || *v.named != p || v.known != known)
}

// follow puts the version in force that the aggregator names, and matches the other one
// that it names beside it.
func (as *Artifacts) follow(ctx context.Context, cfg *config.Config, a *config.Artifact, checked verified) (verified, error) {
	packs, _ := as.host.Named()
	named, known := packs[a.Ref().Repository()]
	installed := loader.Installed(cfg, a)
	switch {
	case !known && installed == nil:
		return as.fetch(ctx, cfg, a, checked) // the first version needs no decision
	case !known:
		as.dropOf(a)
		return checked, errors.New("the aggregator does not state which version is in force: update it, or give it the same entry in rules.artifacts; no other version is put in force here")
	case named.InForce == "":
		return checked, errors.New("the aggregator has no version in force yet")
	case checked.digest != named.InForce || checked.Expired(as.opt.Now()) || installed == nil || installed.Digest != named.InForce:
		var err error
		if checked, err = as.replace(ctx, cfg, a, named.InForce, installed); err != nil {
			return checked, err
		}
	}
	return checked, as.beside(ctx, cfg, a, named)
}

// replace verifies the version with a digest, and puts it in force unless it is.
func (as *Artifacts) replace(ctx context.Context, cfg *config.Config, a *config.Artifact, digest string, installed *artifact.Artifact) (verified, error) {
	var before verified
	if installed != nil {
		before = verified{installed.Digest, installed.Info}
	}
	next, err := as.version(ctx, a, digest, installed)
	if err != nil {
		return before, err
	}
	if before.digest != digest {
		as.dropOf(a)
		if _, err := as.accept(cfg, a, next, false); err != nil {
			return before, err
		}
		as.opt.Log.Info().Str("artifact", a.Reference).Str("version", next.Version).Str("digest", digest).Msg("the aggregator has this version of rule packs in force")
		_ = as.host.Reload(ctx) // it logs the error, which is about other packs
	}
	return verified{digest, next.Info}, nil
}

// version returns a verified version by its digest: the one that is a shadow here, or from
// the registry.
func (as *Artifacts) version(ctx context.Context, a *config.Artifact, digest string, installed *artifact.Artifact) (*artifact.Artifact, error) {
	if sh := as.candidateOf(a); sh != nil && sh.next.Digest == digest {
		return sh.next, nil
	}
	ref, err := artifact.ParseReference(a.Ref().Repository() + "@" + digest)
	if err != nil {
		return nil, err
	}
	r, err := as.open(ref, a)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return as.pull(ctx, r, a, installed)
}

// beside matches the version that the aggregator evaluates as a shadow.
func (as *Artifacts) beside(ctx context.Context, cfg *config.Config, a *config.Artifact, named hits.Pack) error {
	sh := as.candidateOf(a)
	switch {
	case named.Shadow == "" && named.Undecided:
		return nil
	case named.Shadow == "":
		as.dropOf(a)
		return nil
	case sh != nil && sh.next.Digest == named.Shadow && sameArtifact(*sh.artifact, *a):
		return sh.verdict()
	}
	as.dropOf(a)
	err := as.matchBeside(ctx, cfg, a, named.Shadow)
	if err != nil {
		as.setUnmatched(&hits.ShadowState{Digest: named.Shadow, Error: err.Error()})
	}
	return err
}

func (as *Artifacts) matchBeside(ctx context.Context, cfg *config.Config, a *config.Artifact, digest string) error {
	next, err := as.version(ctx, a, digest, loader.Installed(cfg, a))
	if err != nil {
		return err
	}
	if as.host.Unsaved() >= maxShadowUnsaved {
		return errCrowded
	}
	return as.match(cfg, a, next)
}

// match begins to match the rules of a version beside those in force.
func (as *Artifacts) match(cfg *config.Config, a *config.Artifact, next *artifact.Artifact) error {
	as.opt.Loading.Lock()
	defer as.opt.Loading.Unlock()
	sh, err := as.shadowOf(cfg, a, next)
	if err != nil {
		return err
	}
	if sh == nil {
		return fmt.Errorf("no rule of version %s fires differently here: give this agent the rules.paths and rules.overrides of the aggregator", next.Version)
	}
	return as.begin(sh)
}

var errCrowded = errors.New("too many hits wait for the aggregator")

// judgeAgent ends the shadow of an agent if its rules cost too much. It decides nothing
// else.
func (as *Artifacts) judgeAgent(sh *Shadow) {
	if as.host.Unsaved() >= maxShadowUnsaved {
		as.dropOf(sh.artifact) // tried again at the next visit
		as.setUnmatched(&hits.ShadowState{Digest: sh.next.Digest, Error: errCrowded.Error()})
		as.opt.Log.Warn().Err(errCrowded).Str("version", sh.next.Version).Msg("the shadow is interrupted")
		return
	}
	if why := sh.tooCostly(as.opt.Now()); why != "" {
		sh.refuse(why, as.opt.Now())
		as.setUnmatched(&hits.ShadowState{Digest: sh.next.Digest, Error: why, Refused: true})
		as.host.UseShadow(nil)
		as.refuse(sh)
	}
}

// ShadowState is what an agent reports about the version that it matches, or fails to
// match, beside the one in force; nil: there is none.
func (as *Artifacts) ShadowState() *hits.ShadowState {
	if sh := as.host.Shadow(); sh != nil {
		return sh.state()
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	return as.unmatched
}

func (as *Artifacts) setUnmatched(state *hits.ShadowState) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.unmatched = state
}

// dropOf forgets the shadow of an artifact.
func (as *Artifacts) dropOf(a *config.Artifact) {
	if sh := as.candidateOf(a); sh != nil {
		as.drop(sh)
	}
	as.setUnmatched(nil)
}
