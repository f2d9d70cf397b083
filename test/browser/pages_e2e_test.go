//go:build e2e

package browser

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

// firing, pending and held are addresses of episodes of the scene.
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
		"sources-found": "/sources?filter=payments", "playground": "/playground?rule=" + rule, "status": "/status", "missing": "/nowhere",
	}
}

var looks = []look{
	{width: 360, height: 740}, {width: 768, height: 1024}, {width: 1440, height: 900},
	{width: 360, height: 740, dark: true}, {width: 768, height: 1024, dark: true}, {width: 1440, height: 900, dark: true},
}

// Every page is accessible, fits, reports no error and requests nothing from elsewhere, in
// both schemes and three widths.
func TestPages(t *testing.T) {
	in := browser(t)
	for name, s := range map[string]*scene{"": {alerts: 65, streams: 146}, "calm-": {calm: true, streams: 3}} {
		base := s.serve(t)
		for label, path := range s.paths() {
			if s.calm && label != "alerts" && label != "sources" && label != "unknown" {
				continue
			}
			if only := os.Getenv("CROWSNEST_PAGES"); only != "" && !regexp.MustCompile(only).MatchString(name+label) {
				continue
			}
			b := open(t, in, base, path, looks[0])
			if label == "refused" || label == "missing" {
				b.ignore("status of 40")
			}
			for _, l := range looks {
				b.look(l)
				at := fmt.Sprintf("%s%s %s", name, label, l)
				assert.Empty(t, b.axe(), at)
				assert.Empty(t, b.overflow(), at)
				b.screenshot(fmt.Sprintf("%s%s-%s", name, label, l))
			}
			b.close()
		}
	}
}
