package daemon

import (
	"maps"
	"slices"
	"strings"

	"crowsnest/web"
)

// brokenPacks returns the packs and artifacts whose newest version is not in force, and
// the artifacts in force that have expired. Those stay in force: without their rules,
// failures would not be detected. Their expiry is known without the registry, which may
// be unreachable or have a newer version that is not in force yet.
func (d *Daemon) brokenPacks() []web.BrokenPack {
	outcome, now := d.outcome.Load(), d.now()
	out, copies := append(slices.Clone(outcome.broken), d.artifacts.broken()...), outcome.copies
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
