package packs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/hits"
	"crowsnest/web"
)

// candidateOf returns the version of an artifact that is or was evaluated as a shadow.
func (as *Artifacts) candidateOf(a *config.Artifact) *Shadow {
	as.mu.Lock()
	defer as.mu.Unlock()
	if sh := as.candidate; sh != nil && sh.artifact.Ref().Repository() == a.Ref().Repository() {
		return sh
	}
	return nil
}

// View returns the candidate for the pages, nil if there is none.
func (as *Artifacts) View() *web.Shadow {
	as.mu.Lock()
	sh := as.candidate
	as.mu.Unlock()
	if sh == nil {
		return nil
	}
	return new(sh.view(as.opt.Now()))
}

// begin starts a shadow. One is evaluated at a time, so that memory and CPU are bounded.
func (as *Artifacts) begin(sh *Shadow) error {
	as.mu.Lock()
	defer as.mu.Unlock()
	if c := as.candidate; c != nil && c == as.host.Shadow() && c.artifact.Ref().Repository() != sh.artifact.Ref().Repository() {
		return fmt.Errorf("version %s of %s waits until %s is no longer evaluated as a shadow", sh.next.Version, sh.artifact.Reference, c.artifact.Reference)
	}
	as.candidate = sh
	as.host.UseShadow(sh)
	if sh.forward == nil {
		as.host.Compare(sh)
	}
	as.opt.Log.Info().Str("artifact", sh.artifact.Reference).Str("version", sh.next.Version).Int("rules", len(sh.judged)).
		Stringer("for", sh.artifact.ShadowFor()).Msg("evaluating a new version of rule packs as a shadow")
	return nil
}

// drop forgets a shadow.
func (as *Artifacts) drop(sh *Shadow) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.candidate == sh {
		as.candidate = nil
		as.host.UseShadow(nil)
	}
}

// verdict is why the version is not promoted; nil while it is evaluated.
func (s *Shadow) verdict() error {
	why := s.progress(nil, time.Time{}).refused
	if why == "" {
		return nil
	}
	return artifact.Refused{Reason: fmt.Errorf("version %s of %s is not promoted: %s", s.next.Version, s.artifact.Reference, why)}
}

// judge promotes the version that is evaluated as a shadow, or refuses it, when it is
// time. A changed configuration ends the shadow, and changed rules start it again.
func (as *Artifacts) judge(ctx context.Context) {
	sh, cfg := as.host.Shadow(), as.host.Config()
	if sh == nil {
		return
	}
	switch same := slices.ContainsFunc(cfg.Rules.Artifacts, func(a config.Artifact) bool { return sameArtifact(a, *sh.artifact) }); {
	case !same:
		as.drop(sh)
		return
	case sh.base != as.host.InForce():
		as.again(cfg, sh)
		return
	case sh.forward != nil:
		as.judgeAgent(sh)
		return
	}
	refused, over := sh.judge(as.opt.Now())
	switch {
	case refused != "":
		as.host.UseShadow(nil) // the candidate stays for people
		as.refuse(sh)
		if err := loader.Refuse(cfg, sh.artifact, sh.next.Digest, refused); err != nil {
			as.opt.Log.Error().Err(err).Msg("the refusal cannot be saved: after a restart the version is evaluated again")
		}
	case over:
		if err := as.Promote(ctx, sh.next.Digest); err != nil {
			as.opt.Log.Error().Err(err).Msg("a new version of rule packs cannot be promoted")
			as.drop(sh)
		}
	}
}

// refusedBefore reports whether the version was refused before this process started.
func (s *Shadow) refusedBefore(cfg *config.Config) bool {
	why := loader.Refused(cfg, s.artifact, s.next.Digest)
	if why != "" {
		s.refuse(why, time.Time{})
	}
	return why != ""
}

// again starts a shadow again, beside changed rules.
func (as *Artifacts) again(cfg *config.Config, sh *Shadow) {
	var err error
	if sh.forward != nil {
		err = as.match(cfg, sh.artifact, sh.next)
	} else {
		_, err = as.accept(cfg, sh.artifact, sh.next, true)
	}
	if err != nil {
		as.opt.Log.Error().Err(err).Msg("the shadow ends: its rules do not fit the new ones")
		as.drop(sh)
		if sh.forward != nil {
			as.setUnmatched(&hits.ShadowState{Digest: sh.next.Digest, Error: err.Error()})
		}
	}
}

// refuse records why a version is not promoted.
func (as *Artifacts) refuse(sh *Shadow) {
	err := sh.verdict()
	as.opt.Log.Error().Err(err).Msg("the rule packs in force stay")
	as.mu.Lock()
	defer as.mu.Unlock()
	if v := as.visits[sh.artifact.Ref().Repository()]; v != nil {
		v.err, v.refused = err, true
	}
}

// Promote puts the version that is or was evaluated as a shadow in force.
func (as *Artifacts) Promote(ctx context.Context, digest string) error {
	as.mu.Lock()
	sh := as.candidate
	as.mu.Unlock()
	if sh == nil {
		return errors.New("no new version is evaluated as a shadow")
	}
	if sh.forward != nil {
		return errors.New("the aggregator promotes: send the request there")
	}
	if sh.next.Digest != digest {
		return fmt.Errorf("the version that is evaluated as a shadow has the digest %s, not %q", sh.next.Digest, digest)
	}
	if err := as.installChecked(sh); err != nil {
		return err
	}
	as.drop(sh)
	as.mu.Lock()
	if v := as.visits[sh.artifact.Ref().Repository()]; v != nil {
		v.checked, v.err, v.refused = verified{digest, sh.next.Info}, nil, false
	}
	as.mu.Unlock()
	as.opt.Log.Info().Str("artifact", sh.artifact.Reference).Str("version", sh.next.Version).Str("digest", digest).Msg("promoted a new version of rule packs")
	_ = as.host.Reload(ctx) // it logs the error, which is about other packs
	return nil
}

// installChecked makes a version the copy, if it still fits all other rules, has not expired
// meanwhile, and its key is still trusted.
func (as *Artifacts) installChecked(sh *Shadow) error {
	as.opt.Loading.Lock()
	defer as.opt.Loading.Unlock()
	cfg := as.host.Config()
	policy, err := sh.artifact.Policy(nil)
	if err == nil {
		err = policy.Check(sh.next, as.opt.Now())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sh.artifact.Reference, err)
	}
	if _, err := as.opt.Loader.Try(cfg, sh.artifact, sh.next); err != nil {
		return err
	}
	return as.install(cfg, sh.artifact, sh.next)
}
