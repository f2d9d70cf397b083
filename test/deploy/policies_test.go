package deploy

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/manifests"
)

// policy is a NetworkPolicy.
type policy struct {
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		PodSelector selector `yaml:"podSelector"`
		Egress      []struct {
			To []struct {
				PodSelector       *selector `yaml:"podSelector"`
				NamespaceSelector *selector `yaml:"namespaceSelector"`
				IPBlock           any       `yaml:"ipBlock"`
			} `yaml:"to"`
			Ports []struct {
				Port any `yaml:"port"`
			} `yaml:"ports"`
		} `yaml:"egress"`
	} `yaml:"spec"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

func (s selector) selects(labels map[string]any) bool {
	for name, value := range s.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// target is where a pod connects to.
type target struct {
	namespace string // "": outside of the cluster
	labels    map[string]any
	port      any
}

// admits reports whether the policy lets the pods that it selects reach a target.
func (p policy) admits(to target) bool {
	for _, rule := range p.Spec.Egress {
		port, peer := len(rule.Ports) == 0, len(rule.To) == 0
		for _, r := range rule.Ports {
			port = port || r.Port == to.port
		}
		for _, r := range rule.To {
			switch {
			case r.NamespaceSelector != nil:
				peer = peer || r.NamespaceSelector.selects(map[string]any{"kubernetes.io/metadata.name": cmp.Or(to.namespace, "none")})
			case r.PodSelector != nil:
				peer = peer || to.namespace == "crowsnest" && r.PodSelector.selects(to.labels)
			default:
				peer = peer || to.namespace == "" && r.IPBlock != nil
			}
		}
		if port && peer {
			return true
		}
	}
	return false
}

// The default policies admit the connections that the configurations name.
func TestPoliciesAdmitPeers(t *testing.T) {
	for name, text := range rendered(t) {
		var policies []policy
		for _, o := range objects(t, text) {
			if o.Kind == "NetworkPolicy" {
				var p policy
				require.NoError(t, yaml.Unmarshal([]byte(o.text), &p))
				policies = append(policies, p)
			}
		}
		if name == "chart few-objects" {
			require.Empty(t, policies)
			continue
		}
		configs := configurations(t, text)
		for _, o := range manifests.Objects(t, text) {
			labels, ok := at(o, "spec", "template", "metadata", "labels").(map[string]any)
			if !ok {
				continue
			}
			component := labels["app.kubernetes.io/component"].(string)
			for object, config := range configs {
				if !strings.Contains(object, component) {
					continue
				}
				for where, to := range targets(t, config) {
					require.True(t, slices.ContainsFunc(policies, func(p policy) bool { return p.Spec.PodSelector.selects(labels) && p.admits(to) }),
						"%s: no NetworkPolicy lets %s reach %s (%v)", name, component, where, to)
				}
			}
		}
	}
}

// targets returns the connections of a configuration, by what they are for. The
// configuration does not say where DNS and the API server are.
func targets(t *testing.T, config string) map[string]target {
	t.Helper()
	var cfg map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(config), &cfg))
	out := map[string]target{}
	var walk func(key string, value any)
	walk = func(key string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(k, inner)
			}
		case []any:
			for _, inner := range v {
				walk(key, inner)
			}
		case string:
			if key == "reference" {
				v = "https://" + v
			}
			if u, err := url.Parse(v); err == nil && u.Host != "" && key != "external_url" {
				out[key+" "+v] = targetOf(t, u)
			}
		}
	}
	walk("", cfg)
	for _, path := range [][]string{{"agents", "token_review"}, {"agents", "nodes"}, {"objects"}, {"events"}, {"kubernetes"}} {
		if at(cfg["sources"], path...) != nil {
			out["the API server"] = target{port: 6443}
		}
	}
	if cfg["high_availability"] != nil {
		out["the API server"] = target{port: 6443}
		out["the other aggregator"] = target{"crowsnest", map[string]any{
			"app.kubernetes.io/name": "crowsnest", "app.kubernetes.io/instance": "crowsnest", "app.kubernetes.io/part-of": "crowsnest",
			"app.kubernetes.io/component": "aggregator",
		}, "standby"}
	}
	require.NotEmpty(t, out)
	return out
}

// targetOf returns what a name leads to: that of a Service ends with its namespace or
// with svc, unless it is in the namespace of the pods.
func targetOf(t *testing.T, u *url.URL) target {
	t.Helper()
	port := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if u.Port() != "" {
		require.NoError(t, yaml.Unmarshal([]byte(u.Port()), &port))
	}
	parts := strings.Split(strings.TrimSuffix(u.Hostname(), ".svc"), ".")
	switch {
	case strings.HasSuffix(strings.TrimSuffix(parts[0], "-peers"), "-aggregator"):
		return target{"crowsnest", map[string]any{
			"app.kubernetes.io/name": "crowsnest", "app.kubernetes.io/instance": "crowsnest", "app.kubernetes.io/part-of": "crowsnest",
			"app.kubernetes.io/component": "aggregator",
		}, "agents"}
	case strings.HasSuffix(u.Hostname(), ".example.org"):
		return target{port: port}
	}
	return target{namespace: parts[len(parts)-1], port: port}
}
