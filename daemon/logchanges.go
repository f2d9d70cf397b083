package daemon

import (
	"errors"
	"maps"
	"slices"

	"github.com/rs/zerolog"

	"crowsnest/daemon/monitor"
	"crowsnest/matcher"
	"crowsnest/sources"
)

// changeLog logs each change in the state of a source once.
type changeLog struct {
	d        *Daemon
	last     map[string]sources.Status
	panicked map[string]bool // rules that panicked and whose quarantine was already logged
}

func (c *changeLog) log(status []sources.Status) {
	for _, s := range status {
		old := c.last[s.Name]
		log := c.d.component("source").With().Str("source", s.Name).Logger()
		switch {
		case s.Up && !old.Up:
			log.Info().Int("streams", len(s.Streams)).Msg("source is up")
		case !s.Up && old.Up:
			log.Error().Err(asError(s.Error)).Msg("source is down")
		case s.Error != "" && s.Error != old.Error:
			log.Warn().Err(asError(s.Error)).Msg("source has a problem")
		}
		if s.Idle != "" && s.Idle != old.Idle {
			log.Warn().Str("reason", s.Idle).Msg("source is idle: it has nothing to read that a rule can match, and keeps checking")
		}
		// The source events also counts errors of type watch, but these concern the Kubernetes API, and the source
		// follows no files.
		if _, followsFiles := s.Errors["descriptors"]; followsFiles && s.Errors["watch"] > 0 && old.Errors["watch"] == 0 {
			log.Warn().Msg("the limit of inotify instances or watches is reached (fs.inotify): directories are polled, so new files are found a little later")
		}
		c.logLosses(log, s, old)
		c.logMembers(s, old)
		s.Streams = nil
		c.last[s.Name] = s
	}
}

func (c *changeLog) logLosses(log zerolog.Logger, s, old sources.Status) {
	for reason, n := range s.LostBytes {
		if n -= old.LostBytes[reason]; n > 0 {
			log.Warn().Str("reason", reason).Int64("bytes", n).Msg("lines were lost before crowsnest read them")
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Losses)) {
		if l := s.Losses[reason]; l.Count > old.Losses[reason].Count && !l.Time.Before(c.d.readingSince) {
			log.Warn().Str("reason", reason).Str("path", l.Path).Int64("times", l.Count).Msg("lines were lost before crowsnest read them")
		}
	}
}

func (c *changeLog) logMembers(s, old sources.Status) {
	log := c.d.component("source")
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		m := s.Members[name]
		was, known := old.Members[name]
		switch {
		case m.Up && !was.Up:
			log.Info().Str("member", name).Dur("clock_skew", m.Skew).Msg("member is up")
		case !m.Up && (was.Up || !known):
			log.Warn().Str("member", name).Err(asError(m.Error)).Msg("member is down: decisions from the absence of its lines wait")
		}
	}
	for name := range old.Members {
		if _, still := s.Members[name]; !still {
			log.Warn().Str("member", name).Msg("the member was removed: rules no longer wait for its lines")
		}
	}
}

// logPanics logs newly quarantined rules that panicked.
func (c *changeLog) logPanics(quarantined []matcher.Quarantined) {
	now, log := map[string]bool{}, c.d.component("rules")
	for _, g := range quarantined {
		if g.Reason != matcher.ReasonPanic {
			continue
		}
		if now[g.Rule.Alert] = true; !c.panicked[g.Rule.Alert] {
			log.Error().Str("rule", g.Rule.Alert).Str("reason", string(g.Reason)).Msg("rule is quarantined: " + monitor.QuarantineReason(g.Reason))
		}
	}
	c.panicked = now
}

func asError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
