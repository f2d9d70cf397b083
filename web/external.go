package web

import (
	"maps"
	"slices"
	"strconv"

	"crowsnest/episodes"
)

// externalLabels returns the external labels of the configuration, which are added to all alerts.
func externalLabels(v View) map[string]string {
	if all := v.External(); len(all) > 0 {
		return all[0]
	}
	return nil
}

func withExternal(e episodes.Episode, more map[string]string) episodes.Episode {
	e.Labels = withLabels(e.Labels, more)
	if e.Cause != nil {
		c := *e.Cause
		c.Labels = withLabels(c.Labels, more)
		e.Cause = &c
	}
	return e
}

// withLabels returns own with the entries of more whose names own lacks.
func withLabels(own, more map[string]string) map[string]string {
	if len(more) == 0 || own == nil {
		return own
	}
	out := make(map[string]string, len(own)+len(more))
	maps.Copy(out, more)
	maps.Copy(out, own)
	return out
}

// hasFingerprint reports whether an alert has the fingerprint want, either by its own labels or with the external
// labels in one of the sets.
func hasFingerprint(own episodes.Fingerprint, labels map[string]string, sets []map[string]string, want episodes.Fingerprint) bool {
	return own == want || slices.ContainsFunc(sets, func(more map[string]string) bool {
		return episodes.FingerprintOf(withLabels(labels, more)) == want
	})
}

func parseFingerprint(s string) (episodes.Fingerprint, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return episodes.Fingerprint(n), err == nil && len(s) == 16
}

// resolveFingerprint returns the fingerprint by which the daemon knows an alert. text may be this fingerprint or one
// that includes external labels. An unknown fingerprint is returned unchanged. The result is false if text is not a
// fingerprint.
func (s *Server) resolveFingerprint(text string) (episodes.Fingerprint, bool) {
	want, ok := parseFingerprint(text)
	if !ok {
		return 0, false
	}
	all, sets := s.own.Episodes(), s.view.External()
	if slices.ContainsFunc(all, func(e episodes.Episode) bool { return e.Fingerprint == want }) || len(s.view.PastEpisodes(want)) > 0 {
		return want, true
	}
	for i := range all {
		if hasFingerprint(all[i].Fingerprint, all[i].Labels, sets, want) {
			return all[i].Fingerprint, true
		}
	}
	for _, e := range s.view.History() {
		if own := episodes.Fingerprint(e.Fingerprint); hasFingerprint(own, e.Labels, sets, want) {
			return own, true
		}
	}
	return want, true
}

// externalFingerprint returns the fingerprint by which receivers know the alert, or "" if it equals the alert's own
// fingerprint.
func externalFingerprint(own episodes.Fingerprint, shown map[string]string) string {
	if print := episodes.FingerprintOf(shown); print != own {
		return print.String()
	}
	return ""
}

func (s *Server) addedLabels(fingerprint episodes.Fingerprint, shown map[string]string) map[string]string {
	own := s.ownLabels(fingerprint)
	if own == nil || len(own) == len(shown) {
		return nil
	}
	out := map[string]string{}
	for name, value := range shown {
		if _, has := own[name]; !has {
			out[name] = value
		}
	}
	return out
}

// ownLabels returns the labels of an alert without external labels. It returns nil if the alert is unknown.
func (s *Server) ownLabels(fingerprint episodes.Fingerprint) map[string]string {
	if t, ok := s.own.Timeline(fingerprint); ok {
		return t.Episode.Labels
	}
	for _, e := range s.own.Episodes() {
		if e.Fingerprint == fingerprint {
			return e.Labels
		}
	}
	if past := s.own.PastEpisodes(fingerprint); len(past) > 0 {
		return past[0].Labels
	}
	return nil
}
