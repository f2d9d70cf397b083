package agents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sinks/upstream"
	"crowsnest/sources/agents"
	"crowsnest/strictyaml"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	a.cert = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a.key, nil)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	return key
}

// issue writes NAME.crt and NAME.key.
func (a *authority) issue(name string, form *x509.Certificate, key *ecdsa.PrivateKey, parent *x509.Certificate) *x509.Certificate {
	a.n++
	form.SerialNumber, form.Subject = big.NewInt(a.n), pkix.Name{CommonName: name}
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = form
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	a.write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
	return cert
}

func (a *authority) write(name, text string) string {
	file := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// Over TLS both sides authenticate, a token is required as well, and a
// certificate speaks for the node that it names.
func TestTLSAndToken(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.newKey(), a.cert)
	a.issue("n1", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.newKey(), a.cert)
	a.write("token", "hunter2\n")
	web := a.write("web.yml", "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert}\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())

	src := agents.New(agents.Config{ListenAddress: addr, WebConfigFile: web, BearerTokenFile: filepath.Join(a.dir, "token"), CertificateName: true})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	set := newCluster(nil, 0, 1).p
	go func() { served <- src.Run(ctx, set) }()
	require.Eventually(t, func() bool { return src.Status().Up }, 10*time.Second, 10*time.Millisecond)

	node := "n1"
	f := func(httpConfig, want string) {
		t.Helper()
		var cfg upstream.Config
		text := fmt.Sprintf("url: https://%s\nnode: %s\nhttp_config: {%s}\n", addr, node, httpConfig)
		require.Empty(t, strictyaml.Decode("agent.yml", []byte(text), &cfg, strictyaml.Options{}))
		cfg.HTTP.SetDirectory(a.dir)
		up, err := upstream.New(cfg, upstream.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- up.Run(ctx) }()
		require.Eventually(t, func() bool { st := up.Stats(); return st.Reached || st.LastError != "" }, 10*time.Second, 10*time.Millisecond)
		require.Equal(t, want == "", up.Stats().Reached)
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
	f("tls_config: {ca_file: ca.crt, cert_file: n1.crt, key_file: n1.key}, authorization: {credentials_file: token}", "status 403: the credentials are those of node n1, not of n2")
	cancel()
	require.NoError(t, <-served)
	require.Positive(t, src.Stats().Refused["auth"])
	text := fmt.Sprint(src.Status())
	require.NotContains(t, text, "hunter2")
}
