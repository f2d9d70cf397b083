//go:build e2e

package pair

import (
	"crypto/tls"
	"net/http"
)

// insecure trusts the API server of the test.
func insecure() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it runs on this machine
}
