package packs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/artifact"
	"crowsnest/daemon/loader"
	"crowsnest/web"
)

// Broken returns the artifacts whose newest version is not in force, and those of copies,
// which are in force, that have expired. Those stay in force: without their rules,
// failures would not be detected. Their expiry is known without the registry, which may
// be unreachable or have a newer version that is not in force yet. The keys of copies are
// repositories.
func (as *Artifacts) Broken(copies map[string]artifact.Info) []web.BrokenPack {
	out, now := as.notInForce(), as.opt.Now()
	for _, repository := range slices.Sorted(maps.Keys(copies)) {
		err := copies[repository].CheckExpiry(now)
		if err == nil {
			continue
		}
		i := slices.IndexFunc(out, func(b web.BrokenPack) bool { return b.Artifact && b.Pack == repository })
		switch {
		case i < 0:
			out = append(out, web.BrokenPack{Pack: repository, Error: err.Error(), Artifact: true})
		case !strings.Contains(out[i].Error, err.Error()):
			out[i].Error = err.Error() + "\n" + out[i].Error
		}
	}
	return out
}

// notInForce returns the artifacts with a problem that people should know about.
func (as *Artifacts) notInForce() []web.BrokenPack {
	as.mu.Lock()
	defer as.mu.Unlock()
	cfg, now := as.host.Config(), as.opt.Now()
	var out []web.BrokenPack
	for _, repository := range slices.Sorted(maps.Keys(as.visits)) {
		v := as.visits[repository]
		if v.err == nil {
			continue
		}
		missing := loader.Installed(cfg, &v.cfg) == nil
		if v.refused || missing || now.Sub(v.reached) >= awayAfter {
			out = append(out, web.BrokenPack{Pack: repository, Error: v.err.Error(), Missing: missing, Artifact: true})
		}
	}
	if sh := as.candidate; sh != nil {
		if p := sh.progress(nil, now); p.refused == "" && len(p.waiting) > 0 && now.Sub(p.waitsSince) >= shadowWaits {
			out = append(out, web.BrokenPack{
				Pack: sh.artifact.Ref().Repository(), Artifact: true,
				Error: fmt.Sprintf("version %s is not promoted: it is not compared with the version in force, because agents do not match it: %s", sh.next.Version, p.waits()),
			})
		}
	}
	return out
}

// Verified reports whether this process itself has verified every artifact in force.
func (as *Artifacts) Verified() bool {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, v := range as.visits {
		if v.checked.digest == "" {
			return false
		}
	}
	return true
}
