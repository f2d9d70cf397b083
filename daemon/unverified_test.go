package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/sources/objects"
	"crowsnest/test/fakekube"
	"crowsnest/test/rulefolder"
)

// The release that nodes run is compared with the rules, on pages and in the API; an alert
// only tells if that is configured.
func TestUnverifiedRules(t *testing.T) {
	f := func(t *testing.T, alerts bool) {
		s := newShip(t)
		s.rules.Write("a.yaml", strings.Replace(rulefolder.Pack("a", "A", "text of a"), "  severity:", "  verified: {component: kubelet, versions: \">=1.33 <1.36\"}\n  severity:", 1))
		api := fakekube.New()
		api.Break(func(r *http.Request) *http.Response {
			if r.URL.Path != "/api/v1" {
				return nil
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"resources":[{"name":"nodes","kind":"Node"}]}`))}
		})
		api.Put("/api/v1/nodes", fakekube.Object{
			"metadata": map[string]any{"name": "n1"}, "status": map[string]any{"nodeInfo": map[string]any{"kubeletVersion": "v1.37.1+rke2r1"}},
		})
		s.cfg = func(cfg *config.Config) {
			cfg.Rules.AlertUnverified = alerts
			cfg.Sources.Add(&objects.Config{Kinds: []string{"nodes"}, Transport: api})
		}
		s.start()
		s.eventually(func() bool {
			_, body := s.get("/api/v1/rules")
			return strings.Contains(body, `"outside":["v1.37.1+rke2r1"]`)
		}, "the rule is not verified")
		_, page := s.get("/rules/A")
		require.Contains(t, page, "verified for kubelet &gt;=1.33 &lt;1.36, you run v1.37.1&#43;rke2r1")
		if alerts {
			got := s.notified("CrowsnestRulesUnverified")
			require.Equal(t, "kubelet 1.37", got.Labels["software"]+" "+got.Labels["release"])
		} else {
			_, body := s.get("/api/v1/alerts")
			require.NotContains(t, body, "CrowsnestRulesUnverified")
		}
	}
	t.Run("with alerts", func(t *testing.T) { f(t, true) })
	t.Run("without", func(t *testing.T) { f(t, false) })
}
