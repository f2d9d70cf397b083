package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/httpconfig"
	"crowsnest/internal/pause"
)

// discoverAll begins to look for targets, until ctx ends.
func (s *Source) discoverAll(ctx context.Context, running *sync.WaitGroup) {
	if sd := s.cfg.FileSD; sd != nil {
		running.Go(func() { s.discover(ctx, "file_sd", sd.Refresh, sd.read) })
	}
	sd := s.cfg.HTTPSD
	if sd == nil {
		return
	}
	running.Go(func() {
		lazy := &httpconfig.Lazy{Config: sd.HTTP, Name: "fleet_http_sd", UserAgent: userAgent, Idle: idleTimeout, Transport: s.cfg.Transport}
		defer lazy.Close()
		s.discover(ctx, "http_sd", sd.Refresh, func() ([]group, error) {
			client, err := lazy.Client()
			if err != nil {
				return nil, fmt.Errorf("http_sd: %w", err)
			}
			limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
			defer cancel()
			return sd.ask(limited, client)
		})
	})
}

// discover reads a list of targets again and again.
func (s *Source) discover(ctx context.Context, kind string, refresh time.Duration, read func() ([]group, error)) {
	if refresh <= 0 {
		refresh = defaultRefresh
	}
	for {
		groups, err := read()
		if ctx.Err() != nil {
			return
		}
		s.discovered(kind, groups, err)
		if !pause.Sleep(ctx, jittered(refresh), nil) {
			return
		}
	}
}

// discovered takes the outcome of a discovery.
func (s *Source) discovered(kind string, groups []group, err error) {
	now := s.cfg.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := targets(groups, s.cfg.ClusterLabel)
	if err == nil {
		err = s.apply(kind, list, now)
	}
	if err == nil {
		delete(s.problems, kind)
		return
	}
	s.counts["discovery"]++
	p, known := s.problems[kind]
	if !known {
		p.since = now.UTC()
	}
	p.err = clean(err.Error(), maxError)
	s.problems[kind] = p
}

// apply makes a list the targets of a discovery. The caller holds mu.
func (s *Source) apply(kind string, list []found, now time.Time) error {
	s.lists[kind] = list
	var all []found
	for _, t := range s.cfg.Clusters {
		base, err := parseAddress(t.URL)
		all = append(all, found{target{t.Cluster, base}, err})
	}
	for _, kind := range []string{"file_sd", "http_sd"} {
		all = append(all, s.lists[kind]...)
	}
	wanted, left := distinct(all, s.cfg.MaxClusters)
	_, files := s.lists["file_sd"]
	_, answered := s.lists["http_sd"]
	complete := (files || s.cfg.FileSD == nil) && (answered || s.cfg.HTTPSD == nil)
	for _, f := range wanted {
		s.enlist(f, now)
	}
	for name, m := range s.members {
		if _, listed := wanted[name]; !listed && complete && m.delisted.IsZero() {
			m.delisted, s.changed = now, true
		}
	}
	if left > 0 {
		return fmt.Errorf("%s: %d clusters are more than max_clusters (%d) allows and are not read; raise it", kind, left, s.cfg.MaxClusters)
	}
	return nil
}

// enlist adds or changes the member of a target. The caller holds mu.
func (s *Source) enlist(f found, now time.Time) {
	m := s.members[f.cluster]
	switch {
	case m == nil:
		s.members[f.cluster] = newMember(f, now)
		return
	case m.base == nil || f.base == nil || m.base.String() != f.base.String() || f.err != nil:
		m.stop()
		m.target = f.target
		m.err, m.conflict = "", false
	}
	m.doubt, m.delisted = f.err, time.Time{}
}

// distinct returns one target for each cluster, at most limit of them, and how many
// clusters are beyond it. A target whose cluster or address another one has is in doubt.
func distinct(all []found, limit int) (out map[string]found, left int) {
	out = map[string]found{}
	addresses := map[string][]string{} // clusters by address
	omitted := map[string]bool{}
	for _, f := range all {
		old, known := out[f.cluster]
		switch {
		case !known && len(out) == limit:
			omitted[f.cluster] = true
			continue
		case known && old.err == nil && f.err == nil && old.base.String() != f.base.String():
			f.err = fmt.Errorf("two targets are of cluster %q: %s and %s; a fleet view reads one daemon for each cluster", f.cluster, shown(old.base), shown(f.base))
		case known:
			continue
		}
		out[f.cluster] = f
		if at := f.base; at != nil && !slices.Contains(addresses[at.String()], f.cluster) {
			addresses[at.String()] = append(addresses[at.String()], f.cluster)
		}
	}
	for _, names := range addresses {
		if len(names) < 2 {
			continue
		}
		for _, name := range names {
			if f := out[name]; f.err == nil {
				f.err = fmt.Errorf("%d clusters have the address %s: %s; a fleet view reads one daemon for each cluster", len(names), shown(f.base), strings.Join(names[:min(len(names), maxVersions)], ", "))
				out[name] = f
			}
		}
	}
	return out, len(omitted)
}
