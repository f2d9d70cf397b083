package corpus

import "maps"

// The corpus has no lines of these rules; the formats come from the sources of the components.
func init() {
	maps.Copy(signatures, map[string]string{
		"APIServerCannotReachEtcd":         "none",
		"APIServerCannotReachEtcdEndpoint": "none",
		"APIServerCannotDecrypt":           "none",
		"APIServerKMSPluginFails":          "none",
		"APIServerAuditEventsLost":         "none",
		"APIServerCertificateExpired":      "none",
		"APIServerCertificateNotTrusted":   "none",

		"APIDiscoveryIncomplete":                "none",
		"NamespaceDeletionFails":                "none",
		"GarbageCollectorKeepsFailingOnObject":  "none",
		"VolumeAttachKeepsFailing":              "none",
		"VolumeDetachKeepsFailing":              "none",
		"CertificateSigningRequestsNotApproved": "none",
		"NodeCIDRsExhausted":                    "none",
		"CronJobMissesTooManyStarts":            "none",
		"ControllerManagerCannotStart":          "none",
		"ControlPlaneQuotaMonitorsNotSynced":    "none",
		"APIServerAuthWebhookFails":             "none",
		"APIServerNotReachableFromPods":         "none",

		"LeaderCannotUpdateItsLease": "none",
		"LeaseCannotBeRead":          "none",
		"KubeVipCannotReadLease":     "none",

		"EtcdRejectsCertificates":      "none",
		"EtcdPeerUnreachable":          "none",
		"EtcdClockDrift":               "none",
		"EtcdMembershipChangeRefused":  "none",
		"EtcdMemberRemovedButRuns":     "none",
		"EtcdClusterIDMismatch":        "none",
		"EtcdCannotReadItsData":        "none",
		"EtcdMemberCannotJoin":         "none",
		"EtcdRunsOutOfFileDescriptors": "none",

		"KineDatastoreFails": "none",

		"KubeletCannotRegister":           "none",
		"KubeletNotAuthorized":            "none",
		"KubeletCannotUseRuntime":         "none",
		"KubeletDoesNotStart":             "none",
		"ControlPlaneContainerCrashLoops": "none",
		"KubeletCannotReadManifest":       "none",
		"KubeletEvictsPods":               "none",
		"KubeletCannotFreeImageSpace":     "none",
		"KubeletRefusesPods":              "none",
		"KubeletResourceStateInvalid":     "none",
		"KubeletLostDevicePlugin":         "none",
		"KubeletCannotMountVolume":        "none",
		"KubeletCannotUnmountVolume":      "none",
		"KubeletHasOrphanedPods":          "none",

		"RuntimeDoesNotAnswer":          "none",
		"RuntimeCannotCreateContainers": "none",
		"NodeDiskFull":                  "none",
		"RegistryRateLimited":           "none",
		"ContainerdWithoutCRI":          "none",
		"RuntimeCannotUnpackImage":      "none",

		"NetworkPluginUnauthorized":     "none",
		"PodAddressesExhausted":         "none",
		"NetworkPluginFails":            "none",
		"CalicoBGPNotEstablished":       "none",
		"CalicoCannotReachDatastore":    "none",
		"CalicoNodeCannotStart":         "none",
		"FelixCannotProgramNode":        "none",
		"FlannelCannotStart":            "none",
		"CiliumEndpointsNotRegenerated": "none",
		"CiliumAgentEnds":               "none",
		"KubeProxyCannotProgramNode":    "none",

		"CSIProvisioningKeepsFailing": "none",
		"CSIAttachKeepsFailing":       "none",
		"CSIResizeKeepsFailing":       "none",
		"CSISnapshotKeepsFailing":     "none",
		"CSIDriverUnreachable":        "none",
		"CSIOperationHangs":           "none",
		"RookCannotReconcile":         "none",
		"CephOutOfSpaceOrUnhealthy":   "none",
		"CSIDriverNotRegistered":      "none",
		"CSIDeletionKeepsFailing":     "none",

		"CloudLoadBalancerKeepsFailing": "none",
		"CloudNodeNotInitialized":       "none",
		"CloudRoutesNotCreated":         "none",

		"ACMERateLimited":               "none",
		"ACMEOrderFailed":               "none",
		"ACMEChallengeDoesNotPropagate": "none",
		"CertManagerIssuerNotReady":     "none",

		"CoreDNSLoops":                "none",
		"CoreDNSUpstreamFails":        "none",
		"CoreDNSCannotReachAPIServer": "none",
		"CoreDNSConfigurationInvalid": "none",

		"ExternalDNSCannotReadZones":     "none",
		"ExternalDNSCannotChangeRecords": "none",
		"ExternalDNSDoesNotRun":          "none",

		"IngressNginxCannotReload":      "none",
		"IngressCertificateExpired":     "none",
		"IngressCertificateExpiresSoon": "none",
		"IngressCertificateMissing":     "none",

		"MetricsServerCannotScrapeNode": "none",
	})
}
