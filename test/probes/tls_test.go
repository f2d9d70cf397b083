package probes

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/authority"
)

// serviceName is the name of the Service in the configuration of the agents.
const serviceName = "crowsnest-aggregator.crowsnest.svc"

// tunnel is an HTTP proxy that knows one name, in place of DNS and the Service.
type tunnel struct {
	ready  func() bool
	target string

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (tu *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != serviceName+":9798" || !tu.ready() {
		http.Error(w, "unknown or not ready: "+r.Host, http.StatusBadGateway)
		return
	}
	out, err := net.Dial("tcp", tu.target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	tu.keep(in, out)
	defer tu.cut(in, out)
	_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
	_, _ = io.Copy(in, out)
	_ = in.Close()
	wg.Wait()
}

func (tu *tunnel) keep(conns ...net.Conn) {
	tu.mu.Lock()
	defer tu.mu.Unlock()
	for _, c := range conns {
		tu.conns[c] = true
	}
}

// cut closes these connections, without any all.
func (tu *tunnel) cut(conns ...net.Conn) {
	tu.mu.Lock()
	defer tu.mu.Unlock()
	for c := range tu.conns {
		if len(conns) == 0 || c == conns[0] || c == conns[1] {
			_ = c.Close()
			delete(tu.conns, c)
		}
	}
}

// The chart with agentTLS, from helm to the alert: the agent verifies the aggregator by
// the name in its configuration, nothing is accepted without TLS, and a renewed
// certificate is used without a restart. An aggregator with a certificate of another
// authority gets nothing, and nothing is lost meanwhile.
func TestTLSBetweenAgentAndAggregator(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.asShipped, c.proxied = false, true
	tu := &tunnel{ready: func() bool { return c.pods["aggregator"].isReady() }, target: c.agentsAddr, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { tu.cut() })
	c.peers["service"] = newPeer(t, tu)
	require.NoError(t, os.Mkdir(filepath.Join(c.dir, "tls"), 0o700))
	trusted := authority.New(t, filepath.Join(c.dir, "tls"))
	form := func() *x509.Certificate {
		return &x509.Certificate{DNSNames: []string{serviceName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	}
	trusted.Issue("tls", form())
	c.install("base", "--set=agentTLS.secret=crowsnest-aggregator-tls")
	for _, p := range c.peers {
		p.come()
	}
	for _, p := range c.pods {
		p.run()
	}
	c.raise()
	c.eventually("the failure is notified", func() bool { return c.firing("CrowsnestInstallationTest", "") })
	c.eventually("everything is seen", func() bool { return c.firing("CrowsnestHeartbeat", "coverage:full: agents (1 of 1 nodes)") })
	require.Equal(t, big.NewInt(2), c.certificate().SerialNumber)
	res, err := client.Get("http://" + c.agentsAddr + "/")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusBadRequest, res.StatusCode, "without TLS")

	// The certificate of another authority, as if somebody took the address.
	other := authority.New(t, t.TempDir())
	other.Issue("tls", form())
	for _, name := range []string{"tls.crt", "tls.key"} {
		text, err := os.ReadFile(filepath.Join(other.Dir, name))
		require.NoError(t, err)
		trusted.Write(name, string(text))
	}
	tu.cut()
	c.print("second", line)
	c.eventually("the agent refuses it", func() bool {
		return strings.Contains(c.pods["agent"].body(t.Context()), "certificate signed by unknown authority")
	})
	require.EqualValues(t, 1, c.matches())

	trusted.Issue("tls", form())
	c.eventually("what was read meanwhile arrives", func() bool { return c.matches() == 2 })
	require.Equal(t, big.NewInt(3), c.certificate().SerialNumber)
	for _, p := range c.pods {
		p.unrestarted()
	}
	require.NotContains(t, strings.Join(keys(c.am.All()), " "), "CrowsnestLinesLost")
}

// certificate returns the certificate of the aggregator.
func (c *cluster) certificate() *x509.Certificate {
	c.t.Helper()
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", c.agentsAddr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the agent verifies
	require.NoError(c.t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// matches returns how many lines of the test alert the aggregator knows.
func (c *cluster) matches() (sum float64) {
	c.t.Helper()
	all, err := c.pods["aggregator"].Metrics(c.t.Context())
	require.NoError(c.t, err)
	for series, value := range all {
		if strings.HasPrefix(series, "crowsnest_rule_matches_total{") && strings.Contains(series, `rule="CrowsnestInstallationTest"`) {
			sum += value
		}
	}
	return sum
}
