// Package manifests renders the chart and the kustomizations for tests.
package manifests

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"crowsnest/test/servers"
)

const (
	// Deploy is the folder of the manifests, seen from a package below test.
	Deploy = "../../deploy/"
	// ChartDir is the folder of the chart.
	ChartDir = Deploy + "helm/crowsnest"
	// KubeVersion is the version of the cluster for which the chart is rendered.
	KubeVersion = "1.33.0"
)

var (
	mu       sync.Mutex
	rendered = map[string]string{}
)

// Chart renders the chart with a file of deploy/helm/crowsnest/ci, such as "base",
// and further arguments of helm, as release crowsnest in namespace crowsnest. It omits
// the objects of `helm test`.
func Chart(t testing.TB, values string, args ...string) string {
	t.Helper()
	return output(t, "helm", slices.Concat(Template(values), []string{"--skip-tests"}, args)...)
}

// ChartTests renders the objects of `helm test` too.
func ChartTests(t testing.TB, values string) string {
	t.Helper()
	return output(t, "helm", Template(values)...)
}

// Template returns the arguments of helm that render the chart with a file of
// deploy/helm/crowsnest/ci.
func Template(values string) []string {
	return []string{
		"template", "crowsnest", ChartDir, "--namespace=crowsnest", "--kube-version=" + KubeVersion,
		"--values=" + filepath.Join(ChartDir, "ci", values+"-values.yaml"),
	}
}

// Kustomize renders a folder, such as Deploy + "kustomize/base".
func Kustomize(t testing.TB, dir string) string {
	t.Helper()
	return output(t, "kustomize", "build", dir)
}

// output returns what a program prints, once per process.
func output(t testing.TB, program string, args ...string) string {
	t.Helper()
	path := servers.Program(t, program)
	mu.Lock()
	defer mu.Unlock()
	key := strings.Join(args, "\x00")
	if text, ok := rendered[key]; ok {
		return text
	}
	cmd := exec.Command(path, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, stderr.String())
	}
	rendered[key] = string(out)
	return rendered[key]
}

// Objects returns the API objects of rendered manifests.
func Objects(t testing.TB, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		o := map[string]any{}
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("decode a manifest: %v", err)
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
}
