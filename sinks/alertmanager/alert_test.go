package alertmanager

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
	"crowsnest/test/fakeam"
)

func TestTimesOfAlerts(t *testing.T) {
	cfg := Config{}.withDefaults()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("X", 3600))
	ahead := time.Duration(0) // of the receiver's clock
	f := func(start, end time.Duration, resolved bool, wantStart, wantEnd time.Duration) {
		t.Helper()
		ep := episodes.Episode{Labels: map[string]string{"alertname": "A"}}
		if start != -1 {
			ep.StartsAt = now.Add(start)
		}
		if end != -1 {
			ep.EndsAt = now.Add(end)
		}
		a, err := cfg.toAlert(sinks.Message{Episode: ep, Resolved: resolved}, now, now.Add(ahead))
		require.NoError(t, err)
		require.Equal(t, now.Add(wantStart).UTC(), time.Time(a.StartsAt))
		require.Equal(t, now.Add(wantEnd).UTC(), time.Time(a.EndsAt))
	}
	h, lives, unset := time.Hour, defaultEndsAfter, time.Duration(-1)
	f(-h, unset, false, -h, lives)
	f(-h, -h/2, false, -h, lives) // ended, but is sent as firing
	f(-h, -h/2, true, -h, -h/2)
	f(h, unset, false, 0, lives) // the clock was set back
	f(h, 2*h, true, 0, 0)
	f(-h, h, true, -h, 0)
	f(-h, -2*h, true, -h, -h)
	f(unset, unset, false, 0, lives)
	f(unset, unset, true, 0, 0)

	ahead = h // an end soon by our clock may be past by theirs
	f(-h, unset, false, -h, h+lives)
	f(h, unset, false, 0, h+lives)
	f(-h, -h/2, true, -h, -h/2)
	f(-h, h, true, -h, 0)
	ahead = -h // an end a minute ago by our clock is in the future by theirs
	f(-2*h, unset, false, -2*h, lives)
	f(-h/2, unset, false, -h, lives)
	f(-h/2, -time.Minute, true, -h, -h)
	f(-3*h, -2*h, true, -3*h, -2*h)
	f(-2*h, -time.Minute, true, -2*h, -h)
	f(unset, unset, true, -h, -h)
}

// A heartbeat ends soon after its sender.
func TestEndOfAHeartbeat(t *testing.T) {
	cfg, now := Config{ResendDelay: 30 * time.Second}.withDefaults(), time.Now()
	f := func(heartbeat bool, want time.Duration) {
		t.Helper()
		ep := episodes.Episode{Heartbeat: heartbeat, Labels: map[string]string{"alertname": "A"}, StartsAt: now}
		a, err := cfg.toAlert(sinks.Message{Episode: ep}, now, now)
		require.NoError(t, err)
		require.Equal(t, now.Add(want).UTC(), time.Time(a.EndsAt))
	}
	f(true, 2*time.Minute)
	f(false, defaultEndsAfter)
}

func TestLabelsOfAlerts(t *testing.T) {
	cfg := Config{ExternalLabels: map[string]string{"cluster": "ext", "region": "eu"}}.withDefaults()
	ep := func(change func(labels map[string]string)) episodes.Episode {
		labels := map[string]string{"alertname": "A", "cluster": "own"}
		change(labels)
		return episodes.Episode{Labels: labels}
	}
	f := func(change func(labels map[string]string), want map[string]string, wantErr string) {
		t.Helper()
		got, err := cfg.alertLabels(ep(change))
		if wantErr != "" {
			require.EqualError(t, err, wantErr)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, map[string]string(got))
	}
	base := func(more ...string) map[string]string {
		out := map[string]string{"alertname": "A", "cluster": "own", "region": "eu"}
		for i := 0; i+1 < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	f(func(map[string]string) {}, base(), "")
	f(func(l map[string]string) { l["empty"] = "" }, base(), "")
	f(func(l map[string]string) { l["a"] = "x\x1b[31m\u202ey\xff" }, base("a", "x\uFFFD[31m\uFFFDy\uFFFD"), "")
	f(func(l map[string]string) { l["a"] = "<!channel>" }, base("a", "< !channel>"), "")
	f(func(l map[string]string) { delete(l, "alertname") }, nil, "the alert has no alertname")
	f(func(l map[string]string) { l["alertname"] = " " }, nil, "the alert has no alertname")
	f(func(l map[string]string) { l["a-b"] = "x" }, nil, `"a-b" is not a label name`)
	f(func(l map[string]string) { l[""] = "x" }, nil, `"" is not a label name`)
	f(func(l map[string]string) { l["a"] = strings.Repeat("x", 257) }, nil, "label a has 257 bytes, more than 256")
	f(func(l map[string]string) {
		for i := range 19 {
			l[fmt.Sprint("l", i)] = "x"
		}
	}, nil, "the alert has 21 labels, more than 20")
}

// FuzzAlert: an Alertmanager refuses no alert, whatever the episode contains and
// however clocks are set.
func FuzzAlert(f *testing.F) {
	f.Add("A", "name", "value", int64(-3600), int64(0), true, "https://x.example")
	f.Add("A", "a-b", "\xff\x00", int64(3600), int64(-7200), false, "")
	f.Fuzz(func(t *testing.T, alertname, name, value string, start, end int64, resolved bool, base string) {
		cfg := Config{URLs: []string{"http://am"}, ExternalURL: base, ExternalLabels: map[string]string{"cluster": "c"}}
		if cfg.Validate() != nil {
			cfg.ExternalURL = ""
		}
		cfg = cfg.withDefaults()
		now := time.Now()
		ep := episodes.Episode{
			Fingerprint: episodes.Fingerprint(start), Labels: map[string]string{"alertname": alertname, name: value},
			Annotations: map[string]string{name: value, "summary": value, "line": value},
			StartsAt:    now.Add(time.Duration(start) * time.Second), EndsAt: now.Add(time.Duration(end) * time.Second),
		}
		a, err := cfg.toAlert(sinks.Message{Episode: ep, Resolved: resolved}, now, now)
		if err != nil {
			return
		}
		body, err := json.Marshal(a)
		require.NoError(t, err)
		require.True(t, utf8.Valid(body))
		var got fakeam.Alert
		require.NoError(t, json.Unmarshal(body, &got))
		require.False(t, got.StartsAt.After(now))
		require.Equal(t, resolved, !got.EndsAt.After(now))
		require.False(t, got.EndsAt.Before(got.StartsAt))
		for k, v := range got.Labels {
			require.Regexp(t, `^[a-zA-Z_][a-zA-Z0-9_]*$`, k)
			require.NotEmpty(t, v)
		}
		for _, v := range got.Annotations {
			require.LessOrEqual(t, len(v), delivery.MaxAnnotation)
		}
		if got.GeneratorURL != "" {
			u, err := url.Parse(got.GeneratorURL)
			require.NoError(t, err)
			require.True(t, u.IsAbs())
		}
	})
}
