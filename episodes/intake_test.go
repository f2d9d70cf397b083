package episodes

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/episodes/internal/intake"
	"crowsnest/matcher"
	"crowsnest/redact"
)

// The cached results of the last line of a rule change no conclusion.
func TestMemoryChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife(t)
		cfg := Config{MaxActive: 4, Redactor: redact.New([]*regexp.Regexp{regexp.MustCompile("password=[a-z]|secret")})}
		recalls, forgets := l.player(cfg), l.player(cfg)
		forgets.take = func(e *Engine, hits []matcher.Hit, now time.Time) {
			for i := range hits {
				for _, rs := range e.order {
					rs.last, rs.lastOpen = intake.NewMemory(rs.rule), nil
				}
				e.Take(hits[i:i+1], now)
			}
		}
		l.check(recalls, forgets, func(what string) {
			require.Equal(t, forgets.e.Episodes(at(l.now)), recalls.e.Episodes(at(l.now)), what)
			for _, rs := range recalls.e.order {
				if ep := rs.lastOpen; ep != nil {
					require.Same(t, rs.open[ep.key], ep)
				}
			}
		})
	})
}
