package corpus

import "maps"

// The corpus has no lines of these rules; the formats come from the sources of the components.
func init() {
	maps.Copy(signatures, map[string]string{
		"APIServerCannotReachEtcd":         "none",
		"APIServerCannotReachEtcdEndpoint": "none",
		"APIServerCannotDecrypt":           "none",
		"APIServerCertificateExpired":      "none",
		"APIServerCertificateNotTrusted":   "none",

		"APIDiscoveryIncomplete":               "none",
		"GarbageCollectorKeepsFailingOnObject": "none",
		"NodeCIDRsExhausted":                   "none",
		"APIServerAuthWebhookFails":            "none",
		"APIServerNotReachableFromPods":        "none",

		"LeaderCannotUpdateItsLease": "none",
		"LeaseCannotBeRead":          "none",
		"KubeVipCannotReadLease":     "none",

		"EtcdRejectsCertificates":  "none",
		"EtcdPeerUnreachable":      "none",
		"EtcdClockDrift":           "none",
		"EtcdPeerOfAnotherCluster": "none",
		"EtcdCannotReadItsData":    "none",

		"EtcdHasNoMajority":        "none",
		"EtcdServiceHasNoMajority": "none",

		"KineDatastoreFails":          "none",
		"KineDatastoreFailsOnServers": "none",

		"KubeletCannotRegister":           "none",
		"KubeletNotAuthorized":            "none",
		"KubeletCertificateNotSigned":     "none",
		"KubeletCannotUseRuntime":         "none",
		"KubeletDoesNotStart":             "none",
		"ControlPlaneContainerCrashLoops": "none",
		"KubeletCannotReadManifest":       "none",
		"KubeletCannotPullImage":          "none",
		"KubeletCannotMountVolume":        "none",
		"KubeletHasOrphanedPods":          "none",

		"RuntimeDoesNotAnswer": "none",
		"NodeDiskFull":         "none",
		"RegistryRateLimited":  "none",
		"ContainerdWithoutCRI": "none",

		"NetworkPluginUnauthorized":       "none",
		"PodAddressesExhausted":           "none",
		"NetworkPluginFails":              "none",
		"CalicoCannotReachDatastore":      "none",
		"FelixCannotProgramNode":          "none",
		"FlannelCannotStart":              "none",
		"CiliumEndpointsNotRegenerated":   "none",
		"CiliumAgentEnds":                 "none",
		"CiliumEnvoyRejectsConfiguration": "none",
		"KubeProxyCannotProgramNode":      "none",

		"CSIProvisioningKeepsFailing":     "none",
		"CSIAttachKeepsFailing":           "none",
		"CSIResizeKeepsFailing":           "none",
		"CSISnapshotKeepsFailing":         "none",
		"CSIOperationHangs":               "none",
		"ProgramKeepsExiting":             "none",
		"RuntimeCannotCreateContainers":   "none",
		"RuntimeDoesNotStart":             "none",
		"RegistryUnreachable":             "none",
		"ImagePullStalls":                 "none",
		"KubeletCannotStartContainer":     "none",
		"NodeServiceStaysDown":            "none",
		"CSIDriverDoesNotAnswer":          "none",
		"CSIDriverNotRegistered":          "none",
		"RookCannotReconcile":             "none",
		"CephHealthError":                 "none",
		"CephOutOfSpace":                  "none",
		"CSIDeletionKeepsFailing":         "none",
		"ControllerDoesNotWatchNamespace": "none",
		"ControllerStatusRefused":         "none",
		"AWSEKSNeverBecomesActive":        "none",
		"ClusterAPINoConnectionToCluster": "S21",
		"TalosContainerdDoesNotAnswer":    "none",
		"TalosServiceKeepsRestarting":     "none",

		"CloudLoadBalancerKeepsFailing": "none",
		"CloudNodeNotInitialized":       "none",
		"CloudRoutesNotCreated":         "none",
		"CertManagerIssuanceFailed":     "none",
		"CertificateNotReady":           "none",
		"CertificateRenewalStuck":       "none",
		"ACMEChallengeFailed":           "none",
		"ACMEChallengeNotPresented":     "none",
		"ExternalDNSRunFails":           "none",
		"CloudAPIFails":                 "none",
		"CloudControllerDoesNotStart":   "none",
		"ACMERateLimited":               "none",
		"CertManagerIssuerNotReady":     "none",

		"CoreDNSLoops":                "none",
		"CoreDNSPodLoops":             "none",
		"CoreDNSUpstreamFails":        "none",
		"CoreDNSCannotReachAPIServer": "none",
		"CoreDNSConfigurationInvalid": "none",

		"ExternalDNSCannotReadZones":     "none",
		"ExternalDNSCannotChangeRecords": "none",
		"ExternalDNSDoesNotRun":          "none",
		"ExternalDNSExits":               "none",

		"IngressNginxCannotReload":  "none",
		"IngressCertificateExpired": "none",
		"IngressCertificateMissing": "none",

		"MetricsServerCannotScrapeNode": "none",
	})
}
