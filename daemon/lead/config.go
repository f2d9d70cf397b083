package lead

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"crowsnest/internal/httpconfig"
	"crowsnest/internal/kube"
	"crowsnest/internal/strictyaml"
)

// Defaults of Settings.
const (
	defaultListen   = ":9796"
	defaultLease    = "crowsnest"
	defaultAudience = "crowsnest-standby"
	namespaceFile   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Settings configure a pair of processes, of which one leads and the other one is its standby.
type Settings struct {
	// Lease is the Lease by which the leader is elected in Kubernetes.
	Lease *Lease `yaml:"lease"`
	// SharedFolder is the folder by which the leader is elected elsewhere. It must be on
	// storage that both processes share and that has locks between machines, such as NFSv4.
	SharedFolder string `yaml:"shared_folder" bounds:"0,4096"`
	// ListenAddress is the address at which the leader serves its checkpoints to the standby. Default :9796.
	ListenAddress string `yaml:"listen_address" bounds:"0,4096"`
	// AdvertiseURL is the address at which the other process reaches this listener. Default:
	// the variable POD_IP, or else the host name, with the port of ListenAddress.
	AdvertiseURL string `yaml:"advertise_url" bounds:"0,4096"`
	// WebConfigFile is a web configuration file of exporter-toolkit. It configures TLS, client
	// certificates and basic authentication.
	WebConfigFile string `yaml:"web_config_file" bounds:"0,4096"`
	// BearerTokenFile holds the token that the leader requires from the standby.
	BearerTokenFile string `yaml:"bearer_token_file" bounds:"0,4096"`
	// TokenReview requires a service account token from the standby.
	TokenReview *TokenReview `yaml:"token_review"`
	// HTTP configures TLS, credentials and proxies of the standby's requests.
	HTTP httpconfig.Config `yaml:"http_config"`
	// LeaseDuration is the time after the leader's last renewal of its lease after which the
	// standby becomes the leader. A leader that cannot renew stops after two thirds of this
	// time. Default 15s. With less than 3s, a short pause of the process would change the leader.
	LeaseDuration time.Duration `yaml:"lease_duration" bounds:"0|3s,10m"`
	// AloneAfter is the time for which the leader waits for an unreachable standby before it
	// saves without it. Default 5s.
	AloneAfter time.Duration `yaml:"alone_after" bounds:"0s,1m"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Lease names a Lease of Kubernetes.
type Lease struct {
	// Name is the name of the Lease. Default crowsnest.
	Name string `yaml:"name" bounds:"0,253"`
	// Namespace is the namespace of the Lease. Default: the namespace of this program's pod.
	Namespace string `yaml:"namespace" bounds:"0,253"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod. The account
	// needs get and update of the Lease, and create of leases.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// TokenReview makes the API server check the standby's service account token.
type TokenReview struct {
	// ServiceAccount is the service account of both processes, as NAMESPACE/NAME.
	ServiceAccount string `yaml:"service_account" bounds:"0,4096"`
	// Audience is the audience of the tokens. Default crowsnest-standby.
	Audience string `yaml:"audience" bounds:"0,4096"`
	// TokenFile holds the token that the standby presents, a projected token for Audience.
	TokenFile string `yaml:"token_file" bounds:"0,4096"`
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of this program's pod. The account
	// needs the right to create tokenreviews.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// WithDefaults returns the configuration, with defaults for all settings that are not set.
func (c Settings) WithDefaults() Settings {
	c.ListenAddress = cmp.Or(c.ListenAddress, defaultListen)
	c.LeaseDuration = cmp.Or(c.LeaseDuration, DefaultTimes.Lease)
	c.AloneAfter = cmp.Or(c.AloneAfter, DefaultAlone)
	c.AdvertiseURL = strings.TrimRight(c.AdvertiseURL, "/")
	if c.TokenReview != nil {
		review := *c.TokenReview
		review.Audience = cmp.Or(review.Audience, defaultAudience)
		c.TokenReview = &review
	}
	return c
}

// IsGuarded reports whether the leader authenticates its standby. It assumes that a WebConfigFile configures
// authentication.
func (c Settings) IsGuarded() bool {
	return c.WebConfigFile != "" || c.BearerTokenFile != "" || c.TokenReview != nil
}

// Validate returns every problem of the configuration. It does no I/O.
func (c Settings) Validate() error {
	c = c.WithDefaults()
	var errs []error
	switch {
	case c.Lease == nil && c.SharedFolder == "":
		errs = append(errs, errors.New("lease: leader election is not configured; in Kubernetes write `lease: {}`, elsewhere set shared_folder"))
	case c.Lease != nil && c.SharedFolder != "":
		errs = append(errs, errors.New("shared_folder: lease and shared_folder are both set; remove one of them"))
	}
	if _, _, err := net.SplitHostPort(c.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("listen_address: %q is not an address; write it like :9796 or 10.0.0.1:9796", c.ListenAddress))
	}
	if c.AdvertiseURL != "" {
		if u, err := url.Parse(c.AdvertiseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			errs = append(errs, errors.New("advertise_url: not an absolute http or https address without a user; write it like https://10.0.0.1:9796"))
		}
	}
	if r := c.TokenReview; r != nil {
		if ns, name, ok := strings.Cut(r.ServiceAccount, "/"); !ok || ns == "" || name == "" || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("token_review: service_account: %q is not NAMESPACE/NAME, such as crowsnest/crowsnest-aggregator", r.ServiceAccount))
		}
		if r.TokenFile == "" {
			errs = append(errs, errors.New("token_review: token_file: the path is missing; write the path of a projected token"))
		}
		if c.BearerTokenFile != "" {
			errs = append(errs, errors.New("bearer_token_file: bearer_token_file and token_review are both set, but the standby sends only one token; remove one of them"))
		}
	}
	if err := c.HTTP.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

// ElectionTimes returns the times of the election. They are DefaultTimes, scaled to LeaseDuration.
func (c Settings) ElectionTimes() Times {
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(c.WithDefaults().LeaseDuration) / float64(DefaultTimes.Lease))
	}
	return Times{
		Lease: scale(DefaultTimes.Lease), Renew: scale(DefaultTimes.Renew), Retry: scale(DefaultTimes.Retry),
		Grace: scale(DefaultTimes.Grace), Empty: scale(DefaultTimes.Empty),
	}
}

// NewStore returns the store of the record by which the leader is elected. It opens nothing.
func (c Settings) NewStore(getenv func(string) string) (Store, error) {
	if c.Lease == nil {
		return NewFileStore(c.SharedFolder), nil
	}
	namespace := cmp.Or(c.Lease.Namespace, getenv("POD_NAMESPACE"))
	if namespace == "" {
		b, _ := os.ReadFile(namespaceFile)
		namespace = strings.TrimSpace(string(b))
	}
	if namespace == "" {
		return nil, errors.New("high_availability.lease: the namespace is not known; set namespace")
	}
	client := kube.New(kube.Options{Kubeconfig: c.Lease.Kubeconfig})
	return NewLeaseStore(client, namespace, cmp.Or(c.Lease.Name, defaultLease), c.WithDefaults().LeaseDuration), nil
}

// advertisedAddress returns the address at which the other process reaches the listener at l.
func (c Settings) advertisedAddress(l net.Addr, getenv func(string) string) string {
	if c.AdvertiseURL != "" {
		return c.AdvertiseURL
	}
	host, port, _ := net.SplitHostPort(l.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		name, _ := os.Hostname()
		host = cmp.Or(getenv("POD_IP"), name)
	}
	scheme := "http://"
	if c.WebConfigFile != "" {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}
