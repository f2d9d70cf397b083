// Package deploy tests the chart and the kustomizations: they render, they have the
// same objects, the daemon accepts their configurations, and a real API server
// accepts all of them.
package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
	"crowsnest/test/daemon"
	"crowsnest/test/manifests"
)

// The daemon accepts every configuration of the chart, and thereby of the
// kustomizations, with the files that its pod has.
func TestConfigurations(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "crowsnest")
	require.NoError(t, daemon.Build(binary))
	checked := map[string]bool{}
	for _, name := range valueFiles(t) {
		text := manifests.Chart(t, name)
		place := podFiles(t, text)
		for object, config := range configurations(t, text) {
			if checked[config] {
				continue
			}
			checked[config] = true
			local := filepath.Join(t.TempDir(), "crowsnest.yml")
			require.NoError(t, os.WriteFile(local, []byte(place.Replace(config)), 0o600))
			out, err := exec.Command(binary, "check", "config", local).CombinedOutput()
			require.NoError(t, err, "%s: %s: %s", name, object, out)
			// Rules for infrastructure trust the built-in list, not every
			// namespace.
			require.Regexp(t, `\n\d{3} rules trust infrastructure namespaces only [^\n]*: \*-csi, [^\n]*, kube-system, [^\n]*\n`, string(out), name)
		}
	}
	out, err := exec.Command(binary, "test", "rules", "--mutate", root+"/base/rules").CombinedOutput()
	require.NoError(t, err, string(out))
}

// podFiles writes the files that a pod of these manifests has, and returns what
// replaces their paths.
func podFiles(t *testing.T, text string) *strings.Replacer {
	t.Helper()
	dir := t.TempDir()
	write := func(folder, name, text string) string {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
		path := filepath.Join(dir, folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, o := range objects(t, text) {
		for name, text := range o.Data {
			for _, folder := range []string{"rules", "overrides"} {
				if o.Kind == "ConfigMap" && strings.HasSuffix(o.Metadata.Name, "-"+folder) {
					write(folder, name, text)
				}
			}
		}
	}
	for _, folder := range []string{"image", "git"} {
		write(folder, "pack.yaml", "pack: {name: "+folder+", version: 0.1.0}\nrules:\n- {alert: Only"+folder+", from: '{container=\"a\"}', match: it failed, severity: info, annotations: {summary: It failed.}}\n")
	}
	secret := write("secrets", "secret", "https://secret.example.org")
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	ca := write("tls", "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	key := write("tls", "key.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
	return strings.NewReplacer(
		"/etc/crowsnest-rules-image/packs", dir+"/image", "/etc/crowsnest-rules", dir+"/rules", "/etc/crowsnest-overrides", dir+"/overrides",
		"/git/current/crowsnest/rules", dir+"/git", "/git/current/rules", dir+"/git",
		"/var/run/secrets/crowsnest/token", secret, "/var/run/secrets/crowsnest-standby/token", secret, "/etc/crowsnest-secrets/alertmanager/password", secret,
		"/etc/crowsnest-secrets/hook/url", secret, "/etc/crowsnest-tls/ca.crt", ca, "/etc/crowsnest-keys/packs.pub", key,
		"/etc/crowsnest-otlp-token/token", secret, "web-otlp.yml", write("web", "web-otlp.yml", "tls_server_config: {}\n"),
		"web.yml", write("web", "web.yml", "tls_server_config: {}\n"),
	)
}

// Every manifest is YAML without duplicate keys, which kustomize would accept.
func TestStrict(t *testing.T) {
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, doc := range strings.Split(string(text), "\n---\n") {
			_, problems := strictyaml.Parse(path, []byte(doc), strictyaml.Options{})
			require.Empty(t, problems, "%s, document %d", path, i+1)
		}
		return nil
	}))
	for name, text := range rendered(t) {
		for i, doc := range strings.Split(text, "\n---\n") {
			_, problems := strictyaml.Parse(name, []byte(doc), strictyaml.Options{})
			require.Empty(t, problems, "%s, document %d", name, i+1)
		}
	}
}
