package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"crowsnest/test/child"
)

// AlertmanagerOptions configure an Alertmanager. The zero value is one without
// receivers.
type AlertmanagerOptions struct {
	Port int // 0: a free one
	// Dir holds its files and survives the test; "": a temporary folder.
	Dir string
	// Webhook receives notifications of every alert, including its end; "": none.
	Webhook string
	// GroupWait and GroupInterval are 500 ms if 0.
	GroupWait, GroupInterval time.Duration
	// Config is a complete configuration that replaces the above; "": none.
	Config string
	// Debug makes it log every flush of a group.
	Debug bool
	// Faster divides the default times of a cluster, except for probes; 0: short
	// times.
	Faster time.Duration
	// Args are additional flags.
	Args []string
}

func (o AlertmanagerOptions) level() string {
	if o.Debug {
		return "debug"
	}
	return "info"
}

// clusterTimes returns the times of a cluster as flags.
func (o AlertmanagerOptions) clusterTimes() []string {
	if o.Faster == 0 {
		return []string{"--cluster.settle-timeout=500ms", "--cluster.peer-timeout=200ms", "--cluster.gossip-interval=50ms"}
	}
	f := func(flag string, d time.Duration) string { return "--cluster." + flag + "=" + (d / o.Faster).String() }
	return []string{
		f("settle-timeout", time.Minute), f("peer-timeout", 15*time.Second), f("gossip-interval", 200*time.Millisecond),
		f("pushpull-interval", time.Minute), f("reconnect-interval", 10*time.Second),
	}
}

func (o AlertmanagerOptions) config() string {
	if o.Config != "" {
		return o.Config
	}
	wait, interval := orHalfSecond(o.GroupWait), orHalfSecond(o.GroupInterval)
	text := fmt.Sprintf("route: {receiver: test, group_by: [alertname], group_wait: %s, group_interval: %s, repeat_interval: 1h}\nreceivers:\n- name: test\n", wait, interval)
	if o.Webhook != "" {
		text += fmt.Sprintf("  webhook_configs:\n  - {url: %q, send_resolved: true}\n", o.Webhook)
	}
	return text
}

func orHalfSecond(d time.Duration) time.Duration {
	if d == 0 {
		return 500 * time.Millisecond
	}
	return d
}

// AlertmanagerServer is a running Alertmanager.
type AlertmanagerServer struct {
	*Server
	relays []*relay // of the cluster
}

// Isolate cuts or repairs the network between the members of the cluster.
func (a *AlertmanagerServer) Isolate(yes bool) {
	for _, r := range a.relays {
		r.cut.Store(yes)
	}
}

// Alertmanager starts one without a cluster.
func Alertmanager(t testing.TB, opt AlertmanagerOptions) *AlertmanagerServer {
	t.Helper()
	return startAlertmanager(t, "alertmanager", opt, "--cluster.listen-address=")
}

// Alertmanagers starts two that share silences and the notification log. They do not
// share alerts: post to both.
func Alertmanagers(t testing.TB, opt AlertmanagerOptions) [2]*AlertmanagerServer {
	t.Helper()
	first, second := FreePort(t), FreePort(t)
	common := opt.clusterTimes()
	relays := [2]*relay{newRelay(t, first), newRelay(t, second)}
	flags := func(own, other int) []string {
		return append([]string{
			"--cluster.listen-address=" + child.Address([]int{first, second}[own]),
			"--cluster.advertise-address=" + child.Address(relays[own].port), "--cluster.peer=" + child.Address(relays[other].port),
		}, common...)
	}
	var pair [2]*AlertmanagerServer
	pair[0] = startAlertmanager(t, "alertmanager-1", opt, flags(0, 1)...)
	opt.Port = 0
	pair[1] = startAlertmanager(t, "alertmanager-2", opt, flags(1, 0)...)
	for _, am := range pair {
		am.relays = relays[:]
	}
	return pair
}

// AlertmanagerMember starts a member of a cluster that gossips at a port, and joins the members at the
// other ports. The members do not share alerts: post to all.
func AlertmanagerMember(t testing.TB, name string, opt AlertmanagerOptions, gossip int, peers ...int) *AlertmanagerServer {
	t.Helper()
	flags := []string{
		"--cluster.listen-address=" + child.Address(gossip), "--cluster.settle-timeout=1s", "--cluster.peer-timeout=1s",
		"--cluster.gossip-interval=50ms", "--cluster.pushpull-interval=2s", "--cluster.reconnect-interval=1s",
	}
	for _, p := range peers {
		flags = append(flags, "--cluster.peer="+child.Address(p))
	}
	return startAlertmanager(t, name, opt, flags...)
}

func startAlertmanager(t testing.TB, name string, opt AlertmanagerOptions, flags ...string) *AlertmanagerServer {
	t.Helper()
	dir, addr := opt.Dir, child.Address(portOr(t, opt.Port))
	if dir == "" {
		dir = t.TempDir()
	}
	config := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(config, []byte(opt.config()), 0o600); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	args := append([]string{
		"--config.file=" + config, "--storage.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + addr, "--log.level=" + opt.level(),
	}, flags...)
	am := &AlertmanagerServer{Server: &Server{
		Name: name, URL: "http://" + addr, Dir: dir, t: t, bin: Program(t, "alertmanager"),
		args: append(args, opt.Args...), ready: "/-/ready",
	}}
	am.start()
	return am
}

// Alert is an alert as returned by Alertmanager.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Status       struct {
		State string `json:"state"`
	} `json:"status"`
}

// Alerts returns the active alerts that satisfy every filter, such as
// `alertname="X"`.
func (a *AlertmanagerServer) Alerts(filters ...string) []Alert {
	a.t.Helper()
	out, err := a.TryAlerts(filters...)
	if err != nil {
		a.t.Fatalf("read the alerts of %s: %v", a.Name, err)
	}
	return out
}

// TryAlerts is Alerts that returns the error. It is safe for concurrent use.
func (a *AlertmanagerServer) TryAlerts(filters ...string) (out []Alert, err error) {
	query := url.Values{"filter": filters}
	err = Get(context.Background(), a.URL+"/api/v2/alerts?"+query.Encode(), func(body []byte) error {
		return json.Unmarshal(body, &out)
	})
	return out, err
}

// Names returns the names of the active alerts, sorted and separated by spaces.
func (a *AlertmanagerServer) Names() string {
	a.t.Helper()
	return strings.Join(sortedNames(a.Alerts()), " ")
}
