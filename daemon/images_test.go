package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// podImages knows one container.
type podImages struct{ sources.Source }

func (podImages) Name() string               { return "objects" }
func (podImages) Serves(rules.Selector) bool { return false }
func (p podImages) Info() sources.Info       { return sources.Info{Images: p} }

func (podImages) Running(func(string) bool) []string { return nil }

func (podImages) Image(namespace, pod, container string) string {
	if namespace == "vc" && pod == "vc-a-0" && container == "syncer" {
		return "ghcr.io/loft-sh/vcluster-oss:0.22.5"
	}
	return ""
}

// The image of a container is added to hits without one, if the rule compares it.
func TestImagesOfHits(t *testing.T) {
	affects := rules.Remediation{Affects: []rules.Affects{{Component: "vcluster"}}}
	own := matcher.Labels{"namespace": "vc", "pod": "vc-a-0", "container": "syncer"}
	f := func(r rules.Rule, labels matcher.Labels, values []string, want string) {
		t.Helper()
		p := localPipeline(episodes.Config{}, time.Now)
		p.addSource(podImages{})
		shared := append([]string(nil), values...)
		hits := []matcher.Hit{{Rule: &r, Labels: labels, Values: shared}}
		p.nameImages(hits)
		require.Equal(t, want, hits[0].Values[1])
		require.Equal(t, values, shared, "values are shared")
	}
	r := rules.Rule{CapturedNames: []string{"pod", "image"}, Remediation: affects}
	f(r, own, []string{"vc-a-0", ""}, "ghcr.io/loft-sh/vcluster-oss:0.22.5")
	f(r, own, []string{"vc-a-0", "stated:v1"}, "stated:v1")
	f(r, matcher.Labels{"namespace": "vc", "pod": "vc-b-0", "container": "syncer"}, []string{"vc-b-0", ""}, "")
	f(r, nil, []string{"", ""}, "")
	f(rules.Rule{CapturedNames: r.CapturedNames}, own, []string{"vc-a-0", ""}, "")
	f(rules.Rule{CapturedNames: r.CapturedNames, Remediation: affects, By: []string{"image"}}, own, []string{"vc-a-0", ""}, "")
}
