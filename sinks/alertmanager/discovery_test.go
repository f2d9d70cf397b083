package alertmanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
)

// fakeDNS is a resolver whose answers tests change.
type fakeDNS struct {
	mu        sync.Mutex
	err       error
	records   []*net.SRV
	addresses map[string][]string
}

func (d *fakeDNS) LookupNetIP(_ context.Context, network, host string) (out []netip.Addr, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.addresses[host] {
		if ip := netip.MustParseAddr(a); network == "ip" || ip.Is4() == (network == "ip4") {
			out = append(out, ip)
		}
	}
	if len(out) == 0 && d.err == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, d.err
}

func (d *fakeDNS) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return "", d.records, d.err
}

// set makes the answer to SRV lookups consist of these hosts.
func (d *fakeDNS) set(hosts ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records, d.err = nil, nil
	for _, h := range hosts {
		d.records = append(d.records, &net.SRV{Target: h + ".", Port: 9093})
	}
}

func (d *fakeDNS) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func TestLookUp(t *testing.T) {
	r := &fakeDNS{
		records: []*net.SRV{{Target: "one.", Port: 1}, {Target: "dual.", Port: 2}, {Target: "two.", Port: 3}, {Target: "unknown.", Port: 4}},
		addresses: map[string][]string{
			"am": {"10.0.0.1", "fd00::1", "10.0.0.2"}, "one.": {"10.0.0.3"}, "dual.": {"fd00::4", "10.0.0.4"}, "two.": {"10.0.0.5", "10.0.0.6"},
		},
	}
	f := func(c Config, want ...string) {
		t.Helper()
		found, err := c.discoveries()[0].lookUp(t.Context(), r)
		require.NoError(t, err)
		var got []string
		for _, x := range found {
			require.Equal(t, "dns_sd_configs", x.key)
			got = append(got, x.Name+" "+x.URL+" "+x.Address)
		}
		require.Equal(t, want, got)
	}
	f(Config{DNSConfigs: []DNSConfig{{Names: []string{"am"}, Type: "A", Port: 9093}}, Scheme: "https", PathPrefix: "/x/"},
		"https://10.0.0.1:9093/x https://am:9093/x 10.0.0.1:9093", "https://10.0.0.2:9093/x https://am:9093/x 10.0.0.2:9093")
	f(Config{DNSConfigs: []DNSConfig{{Names: []string{"am"}, Type: "aaaa", Port: 80}}}, "http://[fd00::1]:80 http://am:80 [fd00::1]:80")
	f(Config{DNSConfigs: []DNSConfig{{Names: []string{"srv"}}}},
		"http://one:1 http://one:1 10.0.0.3:1", "http://dual:2 http://dual:2 [fd00::4]:2",
		"http://10.0.0.5:3 http://two:3 10.0.0.5:3", "http://10.0.0.6:3 http://two:3 10.0.0.6:3", "http://unknown:4 http://unknown:4 ")

	fails := func(c Config, want string) {
		t.Helper()
		found, err := c.discoveries()[0].lookUp(t.Context(), r)
		require.ErrorContains(t, err, want)
		require.Empty(t, found)
	}
	fails(Config{DNSConfigs: []DNSConfig{{Names: []string{"gone"}, Type: "A", Port: 9093}}}, "no such host")
	r.set()
	fails(Config{DNSConfigs: []DNSConfig{{Names: []string{"srv"}}}}, "the answer has no address")
	r.records = make([]*net.SRV, maxFound+1)
	for i := range r.records {
		r.records[i] = &net.SRV{Target: fmt.Sprint("am-", i), Port: 9093}
	}
	fails(Config{DNSConfigs: []DNSConfig{{Names: []string{"srv"}}}}, "the answer has 33 addresses, more than 32")
	r.fail(errors.New("server misbehaving"))
	fails(Config{DNSConfigs: []DNSConfig{{Names: []string{"srv"}}}}, "server misbehaving")
}

func TestTargetFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c := Config{FileConfigs: []FileConfig{{Files: []string{"am*"}}}, PathPrefix: "am"}
	c.SetDirectory(dir)
	f := func(wrong string, want ...string) {
		t.Helper()
		got, err := c.Targets(t.Context())
		if wrong != "" {
			require.ErrorContains(t, err, wrong)
		} else {
			require.NoError(t, err)
		}
		require.Len(t, got, len(want))
		for i, x := range got {
			require.Equal(t, want[i], x.Name)
			require.Equal(t, want[i], x.URL)
		}
	}
	f(filepath.Join(dir, "am*") + ": there is no such file")
	write("am.json", `[{"targets": ["am-0:9093", "[fd00::1]:9093"], "labels": {"__scheme__": "https", "zone": "a"}}]`)
	write("am.yml", "# comment\n- targets: [10.0.0.1:9093]\n- targets: []\n")
	f("", "https://am-0:9093/am", "https://[fd00::1]:9093/am", "http://10.0.0.1:9093/am")
	write("am.yml", "- targets: ['http://am-1:9093']\n")
	f(`target "http://am-1:9093" is not an address and a port, such as alertmanager-0:9093`)
	write("am.yml", "- targets: [user@am-1:9093]\n")
	f(`is not an address and a port`)
	write("am.yml", "targets: [am-1:9093]\n")
	f(filepath.Join(dir, "am.yml") + ": not a list of maps with targets")
	write("am.yml", "- target: [am-1:9093]\n")
	f("unknown field")
	write("am.yml", strings.Repeat("#", maxTargetFile+1))
	f("the file has 1048577 bytes, more than 1048576")
	write("am.yml", "[]")
	write("am.json", "[]")
	f("the answer has no address")
}

// The address is dialled, and the certificate is checked against the DNS name.
func TestCertificateHasTheName(t *testing.T) {
	am := fakeam.New()
	server := httptest.NewTLSServer(am) // its certificate is for example.com
	defer server.Close()
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	f := func(name string) *Sink {
		t.Helper()
		cfg := Config{DNSConfigs: []DNSConfig{{Names: []string{name}, Type: "A", Port: port}}, Scheme: "https"}
		cfg.HTTP.TLSConfig.CA = certificate(server)
		s, err := New(cfg, Options{Log: zerolog.Nop()})
		require.NoError(t, err)
		s.resolver = &fakeDNS{addresses: map[string][]string{name: {"127.0.0.1"}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
		})
		s.Notify(nil)
		return s
	}
	s := f("example.com")
	s.Notify(eps(fire("A")))
	until(t, am, "the alert", func() bool { return am.States("A") == "firing" })
	require.Equal(t, server.URL, s.Status()[0].Endpoint)

	wrong := f("another.example.org")
	wrong.Notify(eps(fire("B")))
	require.Eventually(t, func() bool {
		st := wrong.Status()
		return len(st) == 1 && strings.Contains(st[0].Error, "certificate is valid for")
	}, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, am.States("B"))
}
