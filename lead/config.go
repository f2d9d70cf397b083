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

	"crowsnest/httpconfig"
	"crowsnest/kube"
	"crowsnest/strictyaml"
)

// Defaults of Settings.
const (
	defaultListen   = ":9796"
	defaultLease    = "crowsnest"
	defaultAudience = "crowsnest-standby"
	namespaceFile   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Settings make this process one of two, of which one leads and the other stands by.
type Settings struct {
	// Lease decides in Kubernetes who leads.
	Lease *Lease `yaml:"lease"`
	// SharedFolder decides elsewhere who leads: a folder on storage that both processes
	// share and that has locks between machines, such as NFSv4.
	SharedFolder string `yaml:"shared_folder" bounds:"0,4096"`
	// ListenAddress is where the leader serves its state to the standby. Default :9796.
	ListenAddress string `yaml:"listen_address" bounds:"0,4096"`
	// AdvertiseURL is the address of this listener for the other process. Default: the
	// variable POD_IP, or the name of the host, with the port of ListenAddress.
	AdvertiseURL string `yaml:"advertise_url" bounds:"0,4096"`
	// WebConfigFile is a web configuration as exporter-toolkit has it: TLS, certificates
	// of clients, basic authentication.
	WebConfigFile string `yaml:"web_config_file" bounds:"0,4096"`
	// BearerTokenFile holds the token that the standby presents and the leader requires.
	BearerTokenFile string `yaml:"bearer_token_file" bounds:"0,4096"`
	// TokenReview requires a service account token from the standby.
	TokenReview *TokenReview `yaml:"token_review"`
	// HTTP is how the standby connects: TLS, credentials and proxies, as in Prometheus'
	// http_config.
	HTTP httpconfig.Config `yaml:"http_config"`
	// LeaseDuration is how long the lead lasts after its last renewal; then the standby
	// takes it. A leader stops after two thirds of it without a renewal. Default 15s. After
	// less than 3s, a pause of the process would change who leads.
	LeaseDuration time.Duration `yaml:"lease_duration" bounds:"0|3s,10m"`
	// AloneAfter is how long the leader waits for an unreachable standby before it saves
	// alone. Default 5s.
	AloneAfter time.Duration `yaml:"alone_after" bounds:"0s,1m"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Lease names a Lease of Kubernetes.
type Lease struct {
	// Name of the Lease. Default crowsnest.
	Name string `yaml:"name" bounds:"0,253"`
	// Namespace of the Lease. Default that of the pod that this program runs in.
	Namespace string `yaml:"namespace" bounds:"0,253"`
	// Kubeconfig is a file; by default the service account of the pod that this program
	// runs in is used. It needs get and update of the Lease, and create of leases.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// TokenReview has the API server review the token of the standby.
type TokenReview struct {
	// ServiceAccount is the account of both processes, as NAMESPACE/NAME.
	ServiceAccount string `yaml:"service_account" bounds:"0,4096"`
	// Audience is the audience of the tokens. Default crowsnest-standby.
	Audience string `yaml:"audience" bounds:"0,4096"`
	// TokenFile is the token that the standby presents: a projected token for that
	// audience.
	TokenFile string `yaml:"token_file" bounds:"0,4096"`
	// Kubeconfig is a file; by default the service account of the pod that this program
	// runs in is used. It needs the right to create tokenreviews.
	Kubeconfig string `yaml:"kubeconfig" bounds:"0,4096"`
}

// WithDefaults returns the configuration with the default of every key that is not set.
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

// Guarded reports whether the leader authenticates its standby, as far as this
// configuration can tell.
func (c Settings) Guarded() bool {
	return c.WebConfigFile != "" || c.BearerTokenFile != "" || c.TokenReview != nil
}

// Validate returns every problem of the configuration. It does no I/O.
func (c Settings) Validate() error {
	c = c.WithDefaults()
	var errs []error
	switch {
	case c.Lease == nil && c.SharedFolder == "":
		errs = append(errs, errors.New("lease: nothing decides who leads; in Kubernetes write `lease: {}`, elsewhere set shared_folder"))
	case c.Lease != nil && c.SharedFolder != "":
		errs = append(errs, errors.New("shared_folder: two things cannot decide who leads; remove this, or lease"))
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
			errs = append(errs, errors.New("token_review: token_file: none given; name the file of a projected token"))
		}
		if c.BearerTokenFile != "" {
			errs = append(errs, errors.New("bearer_token_file: the standby shows one token; remove this, or token_review"))
		}
	}
	if err := c.HTTP.Check(); err != nil {
		errs = append(errs, fmt.Errorf("http_config: %w", err))
	}
	return errors.Join(errs...)
}

// Times returns the durations of the election, in the proportions of DefaultTimes.
func (c Settings) Times() Times {
	scale := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(c.WithDefaults().LeaseDuration) / float64(DefaultTimes.Lease))
	}
	return Times{
		Lease: scale(DefaultTimes.Lease), Renew: scale(DefaultTimes.Renew), Retry: scale(DefaultTimes.Retry),
		Grace: scale(DefaultTimes.Grace), Empty: scale(DefaultTimes.Empty),
	}
}

// Store returns what decides who leads. It opens nothing.
func (c Settings) Store(getenv func(string) string) (Store, error) {
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

// advertised returns the address of a listener for the other process.
func (c Settings) advertised(l net.Addr, getenv func(string) string) string {
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
