// Package corpus tests the shipped packs against real lines, if they are
// available.
package corpus

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// corpus is the folder of the lines, with an index that describes each.
const corpus = "../../../shared/corpus"

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// signatures maps each rule to the signatures that it looks for. A rule that is
// not here fails the test.
var signatures = map[string]string{
	"ClusterAPIConditionAggregationFailing":        "S01",
	"ClusterAutoscalerGroupBackedOffAfterConflict": "S02",
	"ClusterAutoscalerUsedOtherGroupAfterConflict": "S02",
	"HarvesterMachineCountMismatch":                "S03",
	"HarvesterUpgradeRefused":                      "none",
	"HarvesterNodeUpgradeStalled":                  "S03",
	"ControlPlaneLeaseNotRegained":                 "S04",
	"ControlPlaneLosesLeaseRepeatedly":             "S04",
	"VClusterControllerManagerLeaseLost":           "S04",
	"ClusterctlMoveFailedOnFinalizer":              "S05",
	"ControllerFinalizerAddedDuringDeletion":       "S05",
	"ControllerLeaseNotRegained":                   "S06",
	"ControllerLosesLeaseRepeatedly":               "S06",
	"ControllerCacheSyncTimesOut":                  "S07",
	"WebhookUnreachable":                           "S10",
	"WebhookFailsOpen":                             "S10",
	"WebhookCertificateExpired":                    "S11",
	"WebhookCertificateNotTrusted":                 "S11",
	"WebhookServerCertificateRejected":             "S11",
	"WebhookConversionFailing":                     "S12",
	"ControllerForbiddenByRBAC":                    "S13",
	"APIServerRefusesConnections":                  "S37",
	"APIServerRejectsExpiredClientCertificates":    "S11",
	"APIServerRejectsTooManyRequests":              "S15",
	"APIServiceUnavailable":                        "S43",
	"KubeletCannotReachAPIServer":                  "S43",
	"ControlPlaneGarbageCollectorNotSynced":        "S40",
	"ControlPlaneProcessOutOfMemory":               "S20",
	"NodeOutOfMemory":                              "S20",
	"ControllerKeepsFailingOnObject":               "S08",
	"ControllerManagerDoesNotStart":                "none",
	"ControllerCredentialsRejected":                "S35",
	"ControllerThrottlesItself":                    "S14",
	"RancherClusterKeepsWaiting":                   "S33",
	"RancherHandlerKeepsFailing":                   "S34",
	"RancherPlannerKeepsFailing":                   "S34",
	"RancherSystemAgentCannotConnect":              "S35",
	"CertManagerCannotInjectCA":                    "S11",
	"CertManagerWebhookHasNoCertificate":           "S11",
	"ClusterAutoscalerNoGroupLeft":                 "S31",
	"ClusterAutoscalerStopped":                     "S31",
	"VClusterSyncerLosesLeaseRepeatedly":           "S06",
	"EtcdHeartbeatsLate":                           "S16",
	"EtcdRequestsSlow":                             "S16",
	"EtcdLeaderChangesOften":                       "S17",
	"EtcdMemberWithoutLeader":                      "S17",
	"EtcdRequestsTimeOut":                          "S17",
	"EtcdDataCorrupt":                              "S18",
	"EtcdOutOfSpace":                               "S18",
	"ControllerPanics":                             "S19",
	"ClusterAPIWorkloadClusterUnreachable":         "S21",
	"ClusterAutoscalerScaleUpFailed":               "S31",
	"ClusterAutoscalerNodeGroupStaysInBackoff":     "S31",
	"ControllerCRDMissing":                         "S38",
	"EtcdDataOfAnotherRelease":                     "none",
	"APIServerCannotEncrypt":                       "none",
	"APIServersCannotUseEtcd":                      "S17",
	"APIServersExitWithoutEtcd":                    "none",
	"CalicoNodeDoesNotStart":                       "none",
	"ContainerDeviceNotInjected":                   "none",
	"ControlPlaneComponentDoesNotStart":            "none",
	"EtcdCannotWriteItsData":                       "none",
	"EtcdManagerCannotRunEtcd":                     "none",
	"EtcdManagerHasNoVolume":                       "none",
	"KubeProxyDoesNotStart":                        "none",
	"KubeVipDoesNotStart":                          "none",
	"WorkloadPodsRefused":                          "none",
	"TigeraOperatorDegraded":                       "none",
	"CiliumGatewayAPIUnavailable":                  "none",
	"ExternalSecretsWaitForStore":                  "none",
	"ExternalSecretsWebhookHasNoCertificate":       "none",
	"ClusterAPIMachineWaits":                       "S44",
	"CRIOCannotReadContainerState":                 "none",
	"KineDatabaseSlow":                             "none",
	"ControlPlaneComponentRefusesItsFlags":         "none",
	"ControlPlaneStoppedEvictions":                 "S39",
	"VClusterChildExitsRepeatedly":                 "S41",
	"HarvesterUpgradeStuckWaitingForCluster":       "S47",

	"KubeadmControlPlanePreflightStuck":             "S22",
	"KubeadmControlPlaneCannotRemediate":            "S23",
	"KubeadmControlPlaneRemediationWouldLoseQuorum": "S23",
	"RKE2ControlPlaneRemediationWouldLoseQuorum":    "none",
	"ClusterAPINodeDrainStuck":                      "S24",
	"NodeDrainBlockedByDisruptionBudget":            "S24",
	"NodeDrainGaveUp":                               "S24",
	"MachineHealthCheckRemediationRestricted":       "S25",
	"MachineHealthCheckRemediatesMany":              "S25",
	"AWSMachineSpecRefused":                         "S26",
	"AWSMachineCapacityMissing":                     "S26",
	"AWSMachineFailed":                              "S26",
	"AzureCredentialsRefused":                       "S27",
	"AzureRequestNotAuthorized":                     "S27",
	"AzureCapacityMissing":                          "S27",
	"AzureSubscriptionThrottled":                    "S27",
	"AzureMachineFailed":                            "S27",
	"VSphereLoginRefused":                           "S28",
	"VSphereSessionFailing":                         "S28",
	"VSphereObjectNotFound":                         "S28",
	"VSphereMachineNotCreated":                      "S28",
	"BareMetalHostInError":                          "S29",
	"BareMetalHostReconcileFailing":                 "S29",
	"BareMetalHostStaysBusy":                        "S29",
	"Metal3MachineHasNoHost":                        "S29",
	"OpenStackInstanceInError":                      "S30",
	"OpenStackMachineFailed":                        "S30",
	"OpenStackLoadBalancerStuck":                    "S30",
	"OptimisticLockConflictStorm":                   "S09",
	"ClusterAPIClusterDeletionStuck":                "S45",
	"ClusterctlActionFailed":                        "S46",

	// The corpus has no lines of these; their formats come from upstream.
	"KubeadmControlPlaneMachineNotCreated": "none",

	// The lines of these are written by the source machines, not by a
	// controller.
	"NodeHasNoMachine": "S03",

	// The formats of these come from the sources of their components; docs/coverage has the tables.
	"AWSCredentialsRefused":                  "none",
	"AWSQuotaExceeded":                       "none",
	"BareMetalHostCredentialsUnusable":       "none",
	"BareMetalHostGivenUpOnDeletion":         "none",
	"BareMetalHostImageMissing":              "none",
	"ClusterAPIContractNotFound":             "none",
	"ClusterAPIProviderNotInstalled":         "none",
	"TinkerbellMachineSpecRefused":           "none",
	"TinkerbellBMCJobFailed":                 "none",
	"TinkerbellWorkflowFailed":               "none",
	"TinkerbellNoHardware":                   "none",
	"OpenStackUnreachable":                   "none",
	"NutanixPrismCentralUnreachable":         "none",
	"NutanixPrismCentralRefused":             "none",
	"NutanixMachineFailed":                   "none",
	"TenantControlPlaneNotReconciled":        "none",
	"HetznerMachineSpecRefused":              "none",
	"HetznerBareMetalHostFails":              "none",
	"HetznerBareMetalHostStaysFailed":        "none",
	"ClusterAPIInfrastructureReconcileFails": "none",
	"ClusterAPIMachineDeletionWaits":         "S45",
	"ClusterAutoscalerCannotStart":           "none",
	"ClusterAutoscalerCapacityBuffersFail":   "none",
	"ClusterAutoscalerCredentialsRefused":    "none",
	"ClusterAutoscalerGroupHasNoTemplate":    "none",
	"ClusterAutoscalerGroupsAtMaxSize":       "none",
	"ClusterAutoscalerLoopFails":             "none",
	"ClusterAutoscalerMaxNodesTotalReached":  "none",
	"ClusterAutoscalerPodsFitNoGroup":        "none",
	"ClusterAutoscalerScaleUpKeepsFailing":   "none",
	"ClusterAutoscalerSizesNotFixed":         "none",
	"ClusterAutoscalerUnregisteredNodesStay": "none",
	"ClusterTopologyReconcileFails":          "none",
	"ControllerCannotListOrWatch":            "S37",
	"WatchExpiryStorm":                       "S42",
	"ClusterAPIBootstrapChatterStorm":        "S44",
	"FleetAddonReconcileFails":               "none",
	"GCPCapacityMissing":                     "none",
	"GCPPermissionDenied":                    "none",
	"HetznerServerNotCreated":                "none",
	"HetznerCapacityMissing":                 "none",
	"HetznerTokenRefused":                    "none",
	"IronicUnreachable":                      "none",
	"IronicResourceUnusable":                 "none",
	"ArgoCDApplicationSyncFails":             "none",
	"ArgoCDApplicationDegraded":              "none",
	"ArgoCDApplicationStateUnknown":          "none",
	"ArgoCDAutoSyncWouldPruneAll":            "none",
	"ArgoCDApplicationDeletionFails":         "none",
	"ArgoCDClusterNotSynced":                 "none",
	"ArgoCDRepoServerUnreachable":            "none",
	"ArgoCDRedisUnreachable":                 "none",
	"ArgoCDApplicationSetFails":              "none",
	"FluxSourceFails":                        "none",
	"FluxSourceStalled":                      "none",
	"FluxKustomizationFails":                 "none",
	"FluxHelmReleaseFails":                   "none",
	"ExternalSecretFails":                    "none",
	"KEDAScalerFails":                        "none",
	"KEDATriggerAuthenticationFails":         "none",
	"KyvernoCertificatesInvalid":             "none",
	"KyvernoAdmissionPanics":                 "none",
	"KyvernoCannotRenewCertificates":         "none",
	"CrossplaneCompositionFails":             "none",
	"CrossplaneManagedResourceFails":         "none",
	"CrossplanePackageRevisionFails":         "none",
	"MetalLBCannotAllocateAddress":           "none",
	"MetalLBBGPSessionFails":                 "none",
	"VeleroBackupLocationUnavailable":        "none",
	"VeleroBackupFails":                      "none",
	"VeleroRepositoryMaintenanceFails":       "none",
	"VeleroNoDefaultBackupLocation":          "none",
	"IstioProxyRejectsConfiguration":         "none",
	"IstioGatewayCertificateMissing":         "none",
	"IstioGatewayCertificateInvalid":         "none",
	"IstioCACannotSign":                      "none",
	"IstioCNICannotEnrollPods":               "none",
	"IstioProxyCannotReachIstiod":            "none",
	"IstioEnvoyRejectsConfiguration":         "none",
	"IstioGatewayServerSkipped":              "none",
	"CNPGWALArchivingFails":                  "none",
	"CNPGBackupFails":                        "none",
	"CNPGInstanceStaysDown":                  "none",
	"CNPGClusterOutOfDisk":                   "none",
	"CNPGInstanceCreationFails":              "none",
	"PrometheusOperatorSyncFails":            "none",
	"PrometheusConfigReloadFails":            "none",
	"PrometheusConfigNotWritten":             "none",
	"PrometheusOperatorCannotReadObjects":    "none",
	"KubeVipLosesLeadership":                 "none",
	"KubeVipCannotWatchServices":             "none",
	"AWSLoadBalancerSubnetsNotFound":         "none",
	"AWSLoadBalancerCertificateNotFound":     "none",
	"AWSLoadBalancerTargetsNotRegistered":    "none",
	"AWSLoadBalancerQuotaReached":            "none",
	"AWSLoadBalancerCredentialsRefused":      "none",
	"AWSLoadBalancerPermissionMissing":       "none",
	"AWSLoadBalancerControllerDoesNotStart":  "none",
	"KarpenterClusterNotSynced":              "none",
	"KarpenterCredentialsRefused":            "none",
	"KarpenterDoesNotStart":                  "none",
	"KarpenterCannotCreateNodeClaims":        "none",
	"KarpenterInterruptionQueueFails":        "none",
	"KarpenterLaunchFails":                   "none",
	"KarpenterLimitsReached":                 "none",
	"KarpenterNoCapacity":                    "none",
	"KarpenterNodePoolNotReady":              "none",
	"KarpenterNodeOverlaysNotEvaluated":      "none",
	"KarpenterNodesDoNotJoin":                "none",
	"KarpenterPermissionMissing":             "none",
	"KarpenterPodsCannotBeScheduled":         "none",
	"KubeadmControlPlaneKubeletRefuses":      "none",
	"RKE2ControlPlaneCannotRemediate":        "none",
	"OpenStackInstanceNotCreated":            "none",
	"OpenStackCredentialsRefused":            "none",
	"OpenStackQuotaExceeded":                 "none",
	"RKE2BootstrapDataFailing":               "none",
	"RKE2ControlPlanePreflightStuck":         "none",
	"VSphereCertificateRefused":              "none",
	"VSphereMachineWaitsForAddress":          "none",
	"VSphereMachineHasNoAddress":             "none",
	"VSphereUnreachable":                     "none",

	"ClusterAPIObjectFailsAndIsNotReady": "S08",
	"KernelDiskFails":                    "none",
	"KernelDiskIOErrors":                 "none",
	"KernelFilesystemDamaged":            "none",
	"KernelTasksBlocked":                 "none",
	"KubeletClientCertificateExpired":    "none",
	"KubeletKubeconfigMissing":           "none",
	"KubeadmPhaseFailed":                 "none",
	"KubeletHasNoNetworkPlugin":          "none",
	"KubeletLosesTrackOfContainers":      "none",
	"NodeServiceKeepsRestarting":         "none",
	"RKE2NodeCannotJoin":                 "none",
	"RKE2NodeCannotReachSupervisor":      "none",
	"RKE2NodeRefusesServerCertificate":   "none",
}

// excerpt is a row of the index.
type excerpt struct {
	file    string
	none    bool // no line has a signature
	labels  map[int64][]string
	verdict string
	data    []byte
}

func excerpts(t *testing.T) []excerpt {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(corpus, "INDEX.tsv"))
	if err != nil {
		t.Skip("no corpus beside the repository")
	}
	var out []excerpt
	for line := range strings.Lines(string(index)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if f[0] == "file" {
			continue
		}
		e := excerpt{file: f[0], none: f[1] == "-", labels: map[int64][]string{}, verdict: f[5]}
		for part := range strings.SplitSeq(f[1], ";") {
			label, lines, ok := strings.Cut(part, ":")
			if !ok {
				continue
			}
			for text := range strings.SplitSeq(lines, ",") {
				n, err := strconv.ParseInt(text, 10, 64)
				require.NoError(t, err, e.file)
				e.labels[n] = append(e.labels[n], label)
			}
		}
		e.data, err = os.ReadFile(filepath.Join(corpus, e.file))
		require.NoError(t, err)
		out = append(out, e)
	}
	require.NotEmpty(t, out)
	return out
}

func shipped(t *testing.T) (*rules.Set, *matcher.Program) {
	t.Helper()
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	known := 0
	for _, r := range set.Rules {
		if _, ok := signatures[r.Alert]; ok {
			known++
		} else {
			// The corpus has logs only, not what crowsnest writes itself about objects.
			require.False(t, r.Steps[0].From.MayMatch(nil), "say which signature %s looks for", r.Alert)
		}
	}
	require.Equal(t, len(signatures), known)
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	return set, prog
}

// triggers returns the rules whose trigger or step matches each line.
func triggers(prog *matcher.Program, e excerpt) map[int64][]string {
	stream := matcher.NewStream(nil, matcher.StreamOptions{Lenient: true, TextTime: true})
	hits := prog.Scan(stream, e.data, now)
	hits = append(hits, prog.Flush(stream, now)...)
	out := map[int64][]string{}
	for _, h := range hits {
		if h.Part >= 0 && !slices.Contains(out[h.LineNumber], h.Rule.Alert) {
			out[h.LineNumber] = append(out[h.LineNumber], h.Rule.Alert)
		}
	}
	return out
}

// count is a row of the table.
type count struct{ hit, want int }

// Every line of a covered signature is matched by a rule for that signature,
// and no rule matches a line of another signature or of normal operation.
func TestRecallAndFalseHits(t *testing.T) {
	_, prog := shipped(t)
	recall := map[string]*count{}
	for _, s := range signatures {
		recall[s] = &count{}
	}
	perRule := map[string]int{}
	for _, e := range excerpts(t) {
		hits := triggers(prog, e)
		for line, labels := range e.labels {
			for _, label := range labels {
				c := recall[label]
				if c == nil || label == "S08" && len(labels) > 1 {
					continue // S08 is any error of a reconciler: another label names the signature
				}
				if _, ok := unhit[fmt.Sprintf("%s:%d %s", e.file, line, label)]; ok {
					continue
				}
				c.want++
				if slices.ContainsFunc(hits[line], func(rule string) bool { return signatures[rule] == label }) {
					c.hit++
				} else {
					t.Errorf("%s:%d is %s and no rule hits it", e.file, line, label)
				}
			}
		}
		for line, all := range hits {
			for _, rule := range all {
				perRule[rule]++
				if !allowed(e, line, rule) {
					t.Errorf("%s:%d is %v and %s hits it", e.file, line, e.labels[line], rule)
				}
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(recall)) {
		t.Logf("%s %3d of %3d", s, recall[s].hit, recall[s].want)
	}
	for _, rule := range slices.Sorted(maps.Keys(signatures)) {
		t.Logf("%-46s %s %3d lines", rule, signatures[rule], perRule[rule])
	}
}

// unhit are lines that no rule of their signature matches.
var unhit = map[string]string{
	"real/S21-capi-remote-unreachable/caph-1719.log:3 S21":                       "the lines before it name the Cluster",
	"real/S45-delete-stuck/capi-7559-kubeconfig-gone.log:1 S45":                  "words of releases before 1.9: ControllerKeepsFailingOnObject",
	"real/S05-finalizer-deleting/repro-clusterctl194-nonewfinalizers.log:83 S46": "it is S05 too, whose rule says more",
	"real/S25-mhc/repro-capi194-mhc.log:32 S25":                                  "a set does what the health check has said before",
}

// unlabelled are lines whose signature the index does not name.
var unlabelled = map[string]string{
	"real/S09-optimistic-lock/rancher-50065-planner-conflict.log:6": "S33", // the planner waits
	"real/S25-mhc/capi-4472-startup-timeout.log:2":                  "S44",
	"real/S37-apiserver-conn/cre-kubelet-dns.log:2":                 "S43", // its lease times out
	"real/S37-apiserver-conn/cre-kubelet-dns.log:13":                "S43",
	"real/S37-apiserver-conn/cre-kubelet-dns.log:22":                "S43",
	"real/S25-mhc/capi-4472-startup-timeout.log:3":                  "S44",
	"real/S25-mhc/repro-capi194-mhc.log:43":                         "S45", // the infrastructure of a Machine is deleted
	"real/S25-mhc/repro-capi194-mhc.log:51":                         "S45", // the infrastructure of a Machine is deleted
}

// allowed reports whether a rule may match a line: one of its signature, or one
// around it (b, c, p, x). A rule whose signature the index does not know may match a line
// without a label in an excerpt of a failure, but not normal operation. The last step of a sequence is a normal line; it may
// match in excerpts of its signature.
func allowed(e excerpt, line int64, rule string) bool {
	s := signatures[rule]
	if s == "none" && len(e.labels[line]) == 0 && !strings.Contains(e.file, "chatter") {
		return true
	}
	for _, label := range e.labels[line] {
		if strings.TrimRight(label, "bcpx") == s {
			return true
		}
	}
	if unlabelled[fmt.Sprintf("%s:%d", e.file, line)] == s {
		return true
	}
	return rule == "ClusterAutoscalerUsedOtherGroupAfterConflict" && len(e.labels[line]) == 0 && strings.Contains(e.file, s)
}

// quiet are excerpts that should raise an alert but do not: the excerpt is too
// short to distinguish the failure from its harmless twin, or the failure ends
// within it.
var quiet = map[string]string{
	"real/S04-kcm-lease-lost/cri-sched132-restart.log":            "recovers within 21 s",
	"real/S04-kcm-lease-lost/repro-sched132-lost-and-restart.log": "recovers within 26 s",
	"real/S04-kcm-lease-lost/k8s-74340-shutdown.log":              "the line that names the lease is missing; three losses page",
	"real/S05-finalizer-deleting/redhatcop-89-wrapped.log":        "one line without object and time",
	"real/S07-cache-sync-timeout/arc-1286-console.log":            "one exit; a crash loop pages",
	"real/S07-cache-sync-timeout/datadog-2285.log":                "one exit; a crash loop pages",
	"real/S07-cache-sync-timeout/repro-cr023-rbac-klogjson.log":   "one exit; a crash loop pages",
	"real/S12-conversion-webhook/redisop-837-http.log":            "11 s of 3 minutes",
	"real/S13-rbac-forbidden/autoscaler-3841.log":                 "one line; 5 minutes page",
	"real/S13-rbac-forbidden/autoscaler-4018-capi.log":            "one line each; 5 minutes page",
	"real/S13-rbac-forbidden/autoscaler-4273.log":                 "one line each; 5 minutes page",
	"real/S13-rbac-forbidden/repro-cr020-rbac-zapdev.log":         "8 s of 5 minutes",
	"real/S13-rbac-forbidden/repro-cr020-rbac-zapjson.log":        "8 s of 5 minutes",
	"real/S13-rbac-forbidden/repro-cr023-rbac-klog.log":           "8 s of 5 minutes",
	"real/S17-etcd-leader-change/etcd-9668-oldlog.log":            "1 s of 3 minutes",
	"real/S25-mhc/capi-4472-startup-timeout.log":                  "one Machine; five of one health check are told",
	"real/S27-capz-vm-fail/capz-2571-overconstrained.log":         "one line of half an hour",
	"real/S28-capv-vcenter/capv-1503-session.log":                 "one line of half an hour",
	"real/S34-rancher-error-syncing/rancher-33865-notfound.log":   "2 s of 20 minutes",
	"real/S38-crd-missing/cre-snapshot-crd.log":                   "1 s of 5 minutes",
	"real/S38-crd-missing/repro-capbk194-nocrd-json.log":          "60 s of 5 minutes",
	"real/S38-crd-missing/repro-capi194-nocrd.log":                "one exit; a crash loop of 5 minutes pages",
}

// further are alerts about another failure in an excerpt than that of its verdict.
var further = map[string]string{
	"real/S14-client-throttling/repro-cr023-throttle-klogjson.log": "S19", // the reconciler of an object panics
}

// Replayed without labels, excerpts of normal operation raise no alert, and
// those that should, raise an alert of their signature.
func TestVerdicts(t *testing.T) {
	set, prog := shipped(t)
	covered := map[string]bool{}
	for _, s := range signatures {
		covered[s] = true
	}
	for _, e := range excerpts(t) {
		in := replay.Input{Name: e.file, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(e.data)), nil }}
		report, err := replay.Scan(set, prog, []replay.Input{in}, replay.ScanOptions{Lenient: true, Now: now})
		require.NoError(t, err)
		var raised []string
		for _, a := range report.Alerts {
			if s := signatures[a.Episode.Alert]; s != further[e.file] {
				raised = append(raised, s)
			}
		}
		expected := map[string]bool{}
		for _, labels := range e.labels {
			for _, label := range labels {
				expected[label] = covered[label]
			}
		}
		msg := fmt.Sprintf("%s (%s) raises %v", e.file, e.verdict, raised)
		_, isQuiet := quiet[e.file]
		switch {
		case strings.HasPrefix(e.verdict, "benign") || e.none || isQuiet:
			require.Empty(t, raised, msg)
		case e.verdict == "pageable" || e.verdict == "pageable-by-rate":
			wanted := false
			for label, ok := range expected {
				wanted = wanted || ok && label != ""
			}
			if wanted && e.file != "real/S01-capi-aggregate-empty/capi-12036-mixed.log" { // one reconcile
				require.True(t, slices.ContainsFunc(raised, func(s string) bool { return expected[s] }), msg)
			}
		}
		for _, s := range raised {
			require.True(t, expected[s], msg)
		}
	}
}
