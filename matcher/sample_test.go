package matcher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleSize is how large the sample is, in bytes.
const sampleSize = 128 << 10

// The sample consists of the lines below. With UPDATE_SNAPSHOTS=1 the test writes it.
func TestSample(t *testing.T) {
	want := sampleLines(sampleSize, 1)
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile("sample.txt", want, 0o600))
		return
	}
	require.True(t, bytes.Equal(want, sampleText), "run UPDATE_SNAPSHOTS=1 go test -run TestSample ./matcher")
}

var (
	sampleKinds = []string{
		"Machine", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck", "Cluster", "ClusterClass", "ClusterResourceSet", "ClusterResourceSetBinding",
		"KubeadmControlPlane", "KubeadmConfig", "KubeadmConfigTemplate", "RKE2ControlPlane", "RKE2Config", "MetalCluster", "MetalMachine", "DockerMachine", "AWSMachine",
		"AzureMachine", "VSphereMachine", "OpenStackMachine", "CustomMachine", "HarvesterMachine", "HarvesterCluster", "VirtualMachine", "VirtualMachineInstance",
		"HelmChart", "HelmRelease", "Node", "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Endpoints", "EndpointSlice",
		"Ingress", "ConfigMap", "Secret", "ServiceAccount", "Namespace", "ResourceQuota", "Lease", "Event", "PersistentVolume", "PersistentVolumeClaim", "StorageClass",
		"VolumeAttachment", "Volume", "Snapshot", "PodDisruptionBudget", "HorizontalPodAutoscaler", "CustomResourceDefinition", "CertificateSigningRequest", "Certificate",
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ClusterRole", "RoleBinding", "NetworkPolicy", "Upgrade", "Plan", "Addon", "Setting",
	}
	sampleNames = []string{"prod", "staging", "edge", "workers", "control", "plane", "gold", "west", "east", "pool", "system", "default", "monitoring", "tenant"}
	// A percent sign stands for a number, a dollar sign for an object.
	sampleTexts = []string{
		"Reconciling $", "Waiting for infrastructure provider to report spec.providerID",
		"MachineSet is scaling up to % replicas by creating % machines", "Target is healthy, requeue after %s",
		"Skipping $ - node group min size reached (current: %, min: %)", "Finished syncing", "Processing item $",
		"Waited for %.%s due to client-side throttling, not priority and fairness, request: GET:https://10.96.0.1:443/apis/cluster.x-k8s.io/v1beta1/namespaces/$?timeout=10s",
		"watch of *v1.EndpointSlice ended with: very short watch: unexpected watch close - watch lasted less than a second and no items received",
		"synced object $ from host to virtual cluster", "Best option to resize: $", "Reconciler error",
		"Operation cannot be fulfilled on $: the object has been modified; please apply your changes to the latest version and try again",
		"failed to get $: context deadline exceeded", "Successfully created $", "Starting workers", "Updated status of $", "no changes detected, skipping update",
		"attempting to acquire leader lease kube-system/$...", "http: TLS handshake error from 10.0.%.%:%: EOF", "error retrieving resource lock $: connection refused",
		"Event occurred", "Caches are synced for $", "Liveness probe failed: HTTP probe failed with statuscode: %", "pulling image registry.example.com/$:v1.%.%",
	}
)

// sampleLines returns lines that look like those of Kubernetes controllers, in
// the formats that they use. The same seed gives the same lines.
func sampleLines(size int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 0, size+1<<10)
	for len(b) < size {
		b = appendSampleLine(b, r)
	}
	return b
}

func appendSampleLine(b []byte, r *rand.Rand) []byte {
	kind := sampleKinds[r.IntN(len(sampleKinds))]
	ns, object := sampleName(r), sampleObject(r)
	msg := fillSample(r, sampleTexts[r.IntN(len(sampleTexts))])
	clock := fmt.Sprintf("%02d:%02d:%02d.%06d", r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6))
	pairs := []string{
		"controller", strings.ToLower(kind), "controllerGroup", "cluster.x-k8s.io", "controllerKind", kind, kind, object,
		"namespace", ns, "name", object[strings.IndexByte(object, '/')+1:], "reconcileID", fmt.Sprintf("%08x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.Int64N(1<<48)),
	}
	switch k := r.IntN(10); {
	case k < 6:
		b = fmt.Appendf(b, "%c1120 %s       1 %s_controller.go:%d] %q", "IIIWE"[r.IntN(5)], clock, strings.ToLower(kind), r.IntN(900), msg)
		return append(appendPairs(b, pairs, ` %s=%q`), '\n')
	case k < 8:
		b = fmt.Appendf(b, `{"ts":17636328%05d.%04d,"caller":"%s/controller.go:%d","msg":%q,"v":0`, r.IntN(1e5), r.IntN(1e4), strings.ToLower(kind), r.IntN(900), msg)
	case k < 9:
		b = fmt.Appendf(b, `{"level":"info","ts":"2025-11-20T%sZ","logger":"controllers.%s","msg":%q`, clock, kind, msg)
	default:
		b = fmt.Appendf(b, `time="2025-11-20T%sZ" level=info msg=%q`, clock[:8], msg)
		return append(appendPairs(b, pairs, ` %s=%q`), '\n')
	}
	return append(appendPairs(b, pairs, `,%q:%q`), '}', '\n')
}

func appendPairs(b []byte, pairs []string, form string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		b = fmt.Appendf(b, form, pairs[i], pairs[i+1])
	}
	return b
}

func sampleName(r *rand.Rand) string {
	return sampleNames[r.IntN(len(sampleNames))] + "-" + sampleNames[r.IntN(len(sampleNames))] + fmt.Sprintf("-%x", r.IntN(1<<20))
}

func sampleObject(r *rand.Rand) string { return sampleName(r) + "/" + sampleName(r) }

func fillSample(r *rand.Rand, text string) string {
	var b strings.Builder
	for _, c := range text {
		switch c {
		case '%':
			fmt.Fprint(&b, r.IntN(1000))
		case '$':
			b.WriteString(sampleObject(r))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
