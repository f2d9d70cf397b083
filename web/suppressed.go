package web

import (
	"fmt"
	"strings"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

// openSuppression returns the reason why Alertmanager notifies nobody of an open episode. It returns nil if
// Alertmanager notifies somebody, or if this is not known.
func (s *Server) openSuppression(e *episodes.Episode) *history.Suppression {
	if !isEpisodeOpen(*e) || e.Silent {
		return nil
	}
	return s.view.Suppression(e.Fingerprint)
}

// suppression is like openSuppression, but the episode may also be one of the history. For an ended episode, it is the
// reason when the episode ended.
func (s *Server) suppression(e *episodes.Episode) *history.Suppression {
	if !isEpisodeOpen(*e) {
		for _, x := range s.view.PastEpisodes(e.Fingerprint) {
			if x.StartsAt.Equal(e.StartsAt) {
				return x.Suppressed
			}
		}
	}
	return s.openSuppression(e)
}

// SuppressionText returns a sentence about why Alertmanager notifies nobody, without a period.
func SuppressionText(x *history.Suppression) string {
	if x.Silence == "" {
		return "Inhibited by " + tameText(strings.Join(x.InhibitedBy, ", "))
	}
	return fmt.Sprintf("Silenced from %s until %s by %s: %s", formatTime(x.StartsAt), formatTime(x.EndsAt), tameText(x.Author), tameText(x.Comment))
}
