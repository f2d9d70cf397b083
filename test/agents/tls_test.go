package agents

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/client"
	"crowsnest/agent/server"
	"crowsnest/internal/strictyaml"
	"crowsnest/test/authority"
	"crowsnest/test/child"
)

// Over TLS both sides authenticate, a token is required as well, and a
// certificate speaks for the node that it names.
func TestTLSAndToken(t *testing.T) {
	a := authority.New(t, t.TempDir())
	a.Issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.Issue("n1", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	a.Write("token", "hunter2\n")
	web := a.Write("web.yml", "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert}\n")
	port, err := child.FreePort()
	require.NoError(t, err)
	addr := child.Address(port)

	src := server.New(server.Config{ListenAddress: addr, WebConfigFile: web, BearerTokenFile: filepath.Join(a.Dir, "token"), CertificateName: true})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	set := newCluster(nil, 0, 1).p
	go func() { served <- src.Run(ctx, set) }()
	require.Eventually(t, func() bool { return src.Status().Up }, 10*time.Second, 10*time.Millisecond)

	node := "n1"
	f := func(httpConfig, want string) {
		t.Helper()
		var cfg client.Config
		text := fmt.Sprintf("url: https://%s\nnode: %s\nhttp_config: {%s}\n", addr, node, httpConfig)
		require.Empty(t, strictyaml.Decode("agent.yml", []byte(text), &cfg, strictyaml.Options{}))
		cfg.HTTP.SetDirectory(a.Dir)
		up, err := client.New(cfg, client.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- up.Run(ctx) }()
		require.Eventually(t, func() bool { st := up.Stats(); return !st.LastAnswer.IsZero() || st.LastError != "" }, 10*time.Second, 10*time.Millisecond)
		require.Equal(t, want == "", !up.Stats().LastAnswer.IsZero())
		require.Contains(t, up.Stats().LastError, want)
		cancel()
		require.NoError(t, <-done)
	}
	f("tls_config: {ca_file: ca.crt, cert_file: n1.crt, key_file: n1.key}, authorization: {credentials_file: token}", "")
	f("tls_config: {ca_file: ca.crt, cert_file: n1.crt, key_file: n1.key}", "status 401: not authorized")
	f("tls_config: {ca_file: ca.crt}, authorization: {credentials_file: token}", "certificate required")
	f("authorization: {credentials_file: token}", "certificate signed by unknown authority")
	f("tls_config: {ca_file: missing.crt}", "missing.crt")
	node = "n2"
	f("tls_config: {ca_file: ca.crt, cert_file: n1.crt, key_file: n1.key}, authorization: {credentials_file: token}", "status 403: the credentials belong to node n1, not to node n2")
	cancel()
	require.NoError(t, <-served)
	require.Positive(t, src.Stats().RefusedMessages["auth"])
	text := fmt.Sprint(src.Status())
	require.NotContains(t, text, "hunter2")
}
