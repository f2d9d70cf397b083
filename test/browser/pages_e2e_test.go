//go:build e2e

package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Addresses of episodes of the scene.
const (
	firing  = "/episodes/0abc000000000000"
	pending = "/episodes/0abc000000000003"
	held    = "/episodes/0abc000000000005"
	ended   = "/episodes/0abc000000000007"
)

// paths returns the addresses of all pages of a scene.
func (s *scene) paths() map[string]string {
	rule := s.ruleOf(0).Alert
	return map[string]string{
		"alerts": "/", "found": "/?filter=kube&state=firing", "refused": "/?filter=%7Bbroken", "episode": firing, "episode-pending": pending, "episode-held": held,
		"episode-resolved": ended, "rules": "/rules", "rule": "/rules/" + rule, "runbook": "/runbooks/" + rule, "unknown": "/unknown", "sources": "/sources",
		"history": "/history", "history-found": "/history?filter=severity%3D%22critical%22&from=7d", "flat": "/?group=none", "rule-removed": "/rules/NoSuchRule", "silence": firing + "/silence",
		"sources-found": "/sources?filter=payments", "scan": "/scan?rule=" + rule, "status": "/status", "missing": "/nowhere",
	}
}

var looks = []look{
	{width: 360, height: 740},
	{width: 768, height: 1024},
	{width: 1440, height: 900},
	{width: 360, height: 740, dark: true},
	{width: 768, height: 1024, dark: true},
	{width: 1440, height: 900, dark: true},
}

// Every page is accessible, fits, reports no error and requests nothing from elsewhere, in
// both schemes and three widths.
func TestPages(t *testing.T) {
	in := browser(t)
	for name, s := range map[string]*scene{"": {alerts: 65, streams: 146, silence: true}, "calm-": {calm: true, streams: 3}} {
		base := s.serve(t)
		for label, path := range s.paths() {
			if s.calm && label != "alerts" && label != "sources" && label != "unknown" && label != "history" {
				continue
			}
			t.Run(name+label, func(t *testing.T) { requireGood(t, open(in, t, base, path, looks[0])) })
		}
	}
}

// requireGood looks at a page in every way, and closes it.
func requireGood(t *testing.T, b *tab) {
	t.Helper()
	b.ignore("status of 4")   // of a page that shows an error
	b.ignore("status of 503") // an update on a busy machine: the page tries again
	for _, l := range looks {
		b.look(l)
		assert.Empty(t, b.axe(), l)
		assert.Empty(t, b.overflow(), l)
		b.screenshot(strings.TrimPrefix(t.Name(), "TestPages/") + "-" + l.String())
	}
	b.close()
}

// ignore forgets problems that contain a text, now and when the tab is closed.
func (b *tab) ignore(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ignored = append(b.ignored, text)
}

// received returns how many bytes the tab received, compressed.
func (b *tab) received() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}
