package alertmanager

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
	"crowsnest/rules"
)

// suppressor is a member that suppresses alerts.
type suppressor struct {
	silences  []string
	inhibited map[string][]string // inhibiting alerts by alert, as fingerprints
	down      bool
	body      string // replaces every answer
}

func (s *suppressor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.down:
		http.Error(w, "no", http.StatusServiceUnavailable)
	case s.body != "":
		_, _ = w.Write([]byte(s.body))
	case r.URL.Path == "/api/v2/silences":
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(s.silences, ","))
	case r.URL.RequestURI() == "/api/v2/alerts?active=false&silenced=false&inhibited=true&unprocessed=false":
		all := []any{nil, map[string]any{}}
		for fp, by := range s.inhibited {
			all = append(all, map[string]any{"fingerprint": fp, "status": map[string]any{"state": "suppressed", "inhibitedBy": by}})
		}
		_ = json.NewEncoder(w).Encode(all)
	default:
		http.NotFound(w, r)
	}
}

func silenceOf(id, state, matchers string, hours int) string {
	return fmt.Sprintf(`{"id":%q,"status":{"state":%q},"startsAt":"2026-01-02T03:00:00Z","endsAt":"2026-01-02T%02d:00:00Z","updatedAt":"2026-01-02T03:00:00Z","createdBy":"Ada\n\u202e","comment":"why","matchers":[%s]}`, id, state, 3+hours, matchers)
}

// An alert is suppressed if every member that answers suppresses it.
func TestSuppressed(t *testing.T) {
	members := [2]*suppressor{{}, {}}
	var urls []string
	for _, m := range members {
		server := httptest.NewServer(m)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	s, err := New(Config{URLs: urls, Inhibit: true, ExternalLabels: map[string]string{"cluster": "c1"}}, Options{})
	require.NoError(t, err)
	lost, cause := fire("Lost"), fire("Slow")
	lost.Rule, lost.Inhibit = &rules.Rule{Alert: "Lost"}, true
	lost.Cause = &episodes.Cause{Fingerprint: cause.Fingerprint, Alert: "Slow", Severity: "critical"}
	sent := func(e episodes.Episode) string {
		labels, err := s.cfg.alertLabels(e)
		require.NoError(t, err)
		return episodes.FingerprintOf(labels).String()
	}
	mark, ok := markSymptom(&lost, rules.SeverityCritical)
	require.True(t, ok)

	f := func(first, second suppressor, want *history.Suppression) {
		t.Helper()
		*members[0], *members[1] = first, second
		got, err := s.Suppressed(t.Context(), []episodes.Episode{lost, cause})
		require.NoError(t, err)
		require.Equal(t, want, got[lost.Fingerprint])
		require.Nil(t, got[cause.Fingerprint])
	}
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	reason := func(id string, hours int) *history.Suppression {
		return &history.Suppression{Silence: id, Author: "Ada", Comment: "why", StartsAt: at(3), EndsAt: at(3 + hours)}
	}
	one := `{"name":"cluster","value":"c.*","isRegex":true,"isEqual":true},{"name":"alertname","value":"Lost","isRegex":false}`
	short, long := silenceOf("short", "active", one, 1), silenceOf("long", "active", one, 4)
	f(suppressor{silences: []string{short, long}}, suppressor{silences: []string{long, short}}, reason("long", 4))
	f(suppressor{silences: []string{long}}, suppressor{silences: []string{short}}, reason("short", 1))
	f(suppressor{silences: []string{long}}, suppressor{}, nil)
	f(suppressor{}, suppressor{silences: []string{long}}, nil)
	f(suppressor{silences: []string{long}}, suppressor{down: true}, reason("long", 4))
	f(suppressor{down: true}, suppressor{}, nil)

	// Silences that are not active, or cannot be evaluated, silence nothing.
	bad := []string{silenceOf("1", "expired", one, 1), silenceOf("2", "active", `{"name":"a","value":"(","isRegex":true}`, 1), silenceOf("3", "active", "", 1), "null", "{}"}
	f(suppressor{silences: bad}, suppressor{silences: []string{long}}, nil)

	// The inhibiting alerts are named if crowsnest knows them.
	by := func(fingerprints ...string) suppressor {
		return suppressor{inhibited: map[string][]string{sent(lost): fingerprints}}
	}
	f(by(sent(mark)), by(sent(mark)), &history.Suppression{InhibitedBy: []string{"Slow"}})
	f(by("00000000000000ff", sent(cause)), by("00000000000000ff"), &history.Suppression{InhibitedBy: []string{"00000000000000ff", "Slow"}})
	f(by("00000000000000ff"), suppressor{silences: []string{long}}, reason("long", 4))
	f(by("00000000000000ff"), suppressor{}, nil)
	f(by(), suppressor{}, nil)

	// If no member answers, nothing is known.
	for _, body := range []string{"<html>", `{"x":`, "[" + string(make([]byte, maxListed)) + "]"} {
		*members[0], *members[1] = suppressor{body: body}, suppressor{down: true}
		_, err = s.Suppressed(t.Context(), []episodes.Episode{lost})
		require.ErrorContains(t, err, urls[0]+": the response")
		require.ErrorContains(t, err, urls[1]+": status 503: no")
	}
}
