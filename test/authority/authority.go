// Package authority issues certificates for tests.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority is a certificate authority that exists for one test. It is not safe for
// concurrent use.
type Authority struct {
	// Dir has its certificate, ca.crt, and the certificates and keys that it issued.
	Dir string

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

// New makes an authority in a folder.
func New(t testing.TB, dir string) *Authority {
	a := &Authority{t: t, Dir: dir}
	a.key = a.newKey()
	a.cert = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.sign("ca", a.cert, a.key)
	return a
}

// Issue writes NAME.crt and NAME.key. form has what the certificate is for. The
// certificate is valid from an hour ago for two hours.
func (a *Authority) Issue(name string, form *x509.Certificate) {
	a.t.Helper()
	key := a.newKey()
	a.sign(name, form, key)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	a.Write(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

// Write writes a file and returns its path.
func (a *Authority) Write(name, text string) string {
	a.t.Helper()
	file := filepath.Join(a.Dir, name)
	require.NoError(a.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	return key
}

// sign writes NAME.crt.
func (a *Authority) sign(name string, form *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.n++
	form.SerialNumber, form.Subject = big.NewInt(a.n), pkix.Name{CommonName: name}
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	a.Write(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return cert
}
