package objects

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecorded(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	f := func(apiVersion, kind, in string, want ...string) {
		t.Helper()
		r, err := ReadRecorded(apiVersion, kind, []byte(in))
		require.NoError(t, err)
		var got []string
		for _, l := range r.Lines(at, at) {
			got = append(got, l.Time.Format("15:04 ")+l.Component+" "+l.Namespace+" "+l.Text)
		}
		require.Equal(t, want, got)
	}
	f("cluster.x-k8s.io/v1beta1", "Machine",
		`{"metadata":{"namespace":"fleet","name":"m"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"Down","lastTransitionTime":"2026-11-20T09:30:00Z","message":"x"}]}}`,
		`09:30 conditions fleet msg="condition" type=Ready status=False resource=machines.cluster.x-k8s.io kind=Machine object=fleet/m name=m reason=Down since=2026-11-20T09:30:00Z age=0s message=x`,
		`10:00 conditions fleet msg="condition" type=Ready status=False resource=machines.cluster.x-k8s.io kind=Machine object=fleet/m name=m reason=Down since=2026-11-20T09:30:00Z age=30m0s message=x`,
		`10:00 phases fleet msg="phase" phase=Running reason="" resource=machines.cluster.x-k8s.io kind=Machine object=fleet/m name=m since="" age="" message=""`)
	lease := `{"metadata":{"namespace":"kube-system","name":"l"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2026-11-20T09:RENEWZ"}}`
	line := `10:00 leases kube-system msg="lease is STATE" resource=leases.coordination.k8s.io kind=Lease object=kube-system/l name=l duration=15s renewed=2026-11-20T09:RENEWZ unchanged=AGE transitions=0 holder=a`
	of := func(renewed, state, age string) {
		t.Helper()
		var want []string
		if state != "" {
			want = []string{strings.NewReplacer("RENEW", renewed, "STATE", state, "AGE", age).Replace(line)}
		}
		f("coordination.k8s.io/v1", "Lease", strings.ReplaceAll(lease, "RENEW", renewed), want...)
	}
	of("59:50", "held", "10s")
	of("59:30", "", "") // the clocks of holders differ
	of("50:00", "stale", "10m0s")
	f("coordination.k8s.io/v1", "Lease", `{"metadata":{"name":"l"},"spec":{}}`,
		`10:00 leases  msg="lease has no holder" resource=leases.coordination.k8s.io kind=Lease object=l name=l duration=0s renewed="" unchanged=0s transitions=0 holder=""`)
}

func TestResourceOf(t *testing.T) {
	for _, k := range DefaultKinds() {
		resource, group, grouped := strings.Cut(k, ".")
		version := "v1"
		if grouped {
			version = group + "/v1"
		}
		singular := strings.TrimSuffix(resource, "s")
		require.Equal(t, k, string(pluralResource(version, singular)))
	}
	require.Equal(t, kind("networkpolicies.networking.k8s.io"), pluralResource("networking.k8s.io/v1", "NetworkPolicy"))
	require.Equal(t, kind("ingresses.networking.k8s.io"), pluralResource("networking.k8s.io/v1", "Ingress"))
	require.Equal(t, kind("gateways.x"), pluralResource("x/v1", "Gateway"))
}
