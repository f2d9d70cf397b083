package kubelab

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"gopkg.in/yaml.v3"

	"crowsnest/test/wait"
)

// Definitions creates the CustomResourceDefinitions in the files, below the folder
// dir, of a Go module such as "example.org/m@v1.2.3", and waits until they are
// served. sum is the expected checksum of the module, as in go.sum.
func (l *Lab) Definitions(module, sum, dir string, files ...string) {
	l.t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = l.Dir // outside of any module
	out, err := cmd.Output()
	var got struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &got) != nil || err != nil || got.Sum != sum {
		l.t.Fatalf("download %s: %v: %s, checksum %s, expected %s", module, err, got.Error, got.Sum, sum)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(got.Dir, dir, file))
		if err != nil {
			l.t.Fatalf("read a definition of %s: %v", module, err)
		}
		var definition Object
		if err := yaml.Unmarshal(text, &definition); err != nil {
			l.t.Fatalf("decode %s: %v", file, err)
		}
		made := l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
		l.served(made)
	}
}

// served waits until the newest version of a definition is served.
func (l *Lab) served(definition Object) {
	l.t.Helper()
	spec, _ := definition["spec"].(Object)
	names, _ := spec["names"].(Object)
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		v, _ := version.(Object)
		if v["served"] != true {
			continue
		}
		path := "/apis/" + text(spec["group"]) + "/" + text(v["name"]) + "/" + text(names["plural"])
		if !wait.Until(30*time.Second, func() bool {
			code, _ := l.Try(http.MethodGet, path, nil)
			return code == http.StatusOK
		}) {
			l.t.Fatalf("%s is not served", path)
		}
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// PrometheusOperator creates the definitions of the Prometheus operator that
// crowsnest uses.
func (l *Lab) PrometheusOperator() {
	l.t.Helper()
	l.Definitions("github.com/prometheus-operator/prometheus-operator@v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=", "example/prometheus-operator-crd",
		"monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_servicemonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml")
}

// ClusterAPI creates the definitions of Cluster API that crowsnest uses.
func (l *Lab) ClusterAPI() {
	l.t.Helper()
	l.Definitions("sigs.k8s.io/cluster-api@v1.14.2", "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=", "core/config/crd/bases", "cluster.x-k8s.io_machines.yaml", "cluster.x-k8s.io_clusters.yaml")
}

// GatewayAPI creates the definition of HTTPRoute.
func (l *Lab) GatewayAPI() {
	l.t.Helper()
	l.Definitions("sigs.k8s.io/gateway-api@v1.4.0", "h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=", "config/crd/standard", "gateway.networking.k8s.io_httproutes.yaml")
}
