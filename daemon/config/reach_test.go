package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func TestBlindRules(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	f := func(config string, want ...string) {
		t.Helper()
		cfg, problems := Parse("c.yml", []byte(config))
		require.Empty(t, problems.Errors())
		require.Equal(t, want, cfg.blindRules(set))
	}
	// The journal of a node with rke2 or K3s, and of Rancher's agent on it. Rules of the
	// kubelet and of the kernel's memory also read containers and files, such as RKE1's
	// kubelet and a problem detector.
	host := slices.Sorted(slices.Values([]string{
		"HarvesterBootstrapKeepsRetrying", "K3sDatabaseLocked", "RKE2BootstrapTokenMismatch",
		"RKE2CertificatesNewerThanDatastore", "RKE2ContainerdDoesNotStart", "RKE2ControlPlaneDoesNotStart",
		"RKE2EtcdLearnerNotPromoted", "RKE2EtcdSnapshotFails", "RKE2JoinTokenRejected",
		"RKE2NodePasswordRejected", "RKE2NodeRefusesServerCertificate", "RKE2ProcessKeepsExiting", "RKE2ServerCannotJoinEtcd", "RKE2ServerConfigurationDiffers", "RKE2ServerKeepsExiting",
		"RKE2ServerNotEtcdMember", "RancherConnectionInfoNotReceived", "RancherSystemAgentPlanFails", "RancherSystemAgentPlanKeepsFailing",
		"RancherSystemAgentProbeHasNoCertificate", "RKE2NodeCannotJoin", "RKE2NodeCannotReachSupervisor", "RancherSystemAgentCannotConnect",
		"EtcdServiceHasNoMajority", "K0sComponentKeepsExiting", "K0sDatastoreFails", "K0sDoesNotStart", "KernelFilesystemDamaged", "KernelTasksBlocked", "NodeServiceKeepsRestarting", "NodeServiceStaysDown", "RuntimeDoesNotStart",
	}))
	am := "sinks: {stdout: {}}\n"
	f(am+"sources: {kubelet: {}, objects: {machines: {}}, events: {}}\n", host...)
	f(am+"sources: {kubelet: {}, objects: {machines: {}}, events: {}, files: {paths: [{path: /var/log/syslog, labels: {job: kernel, unit: kubelet.service}}]}}\n",
		host...)
	f(am + "sources: {kubelet: {}, objects: {machines: {}}, events: {}, journal: {}}\n")
	f(am + "sources: {agents: {}, objects: {machines: {}}, events: {}}\n")
	f(am + "sources: {loki: {url: 'http://loki:3100', selector: '{namespace=~\".+\"}'}}\n")
}
