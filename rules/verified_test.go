package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

func TestVerified(t *testing.T) {
	f := func(defaults, own string, want ...rules.Verified) {
		t.Helper()
		text := "pack: {name: p}\ndefaults: {severity: info" + defaults + "}\nrules:\n- {alert: A, from: '{a=\"b\"}', match: some text" + own + "}\n"
		doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
		require.Empty(t, problems.Errors(), problems.Error())
		set, _ := rules.Build([]*rules.Document{doc}, rules.Options{})
		require.Equal(t, want, set.Rules[0].Verified, text)
	}
	const pack, own = `, verified: {component: kubelet, versions: ">=1.33 <1.36"}`, `, verified: {component: etcd, versions: "3.6.1"}`
	kubelet, etcd := rules.Verified{Component: "kubelet", Versions: ">=1.33 <1.36"}, rules.Verified{Component: "etcd", Versions: "3.6.1"}
	f("", "")
	f(pack, "", kubelet)
	f("", own, etcd)
	f(pack, own, etcd)
	f(pack, ", verified: none")
	f("", `, verified: [{component: kubelet, versions: ">=1.33 <1.36"}, {component: etcd, versions: "3.6.1"}]`, kubelet, etcd)
}

// A pack of somebody else costs no more than its size.
func TestHostileVerified(t *testing.T) {
	f := func(verified, want string) {
		t.Helper()
		text := "pack: {name: p}\ndefaults: {severity: info, verified: " + verified + "}\nrules:\n"
		for i := range 1000 {
			text += fmt.Sprintf("- {alert: A%d, from: '{a=\"b\"}', match: some text %d}\n", i, i)
		}
		_, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
		errs := problems.Errors()
		require.NotEmpty(t, errs)
		require.Less(t, len(errs), 200, "a problem of the default is reported once")
		require.Contains(t, errs.Error(), want)
	}
	f("["+strings.Repeat(`{component: kubelet, versions: "1.35.0"},`, 5000)+"]", "allowed are 1 to 20")
	f(`{component: `+strings.Repeat("x", 5000)+`, versions: "1.35.0"}`, "allowed are 1 to 4096")
	f(`{component: kubelet, versions: "`+strings.Repeat(">=1.33 <1.36 || ", 250)+`"}`, "nothing on one side of ||")
	f(`[[[[[{}]]]]]`, "is a list")
	f(`{component: kubelet, versions: ""}`, "versions")
	f(`~`, "has no value")
}

func TestUnverified(t *testing.T) {
	text := `pack: {name: p}
defaults: {severity: info, verified: {component: kubelet, versions: ">=1.33 <1.36"}}
rules:
- {alert: A, from: '{a="b"}', match: text of A}
- {alert: B, from: '{a="b"}', match: text of B, verified: [{component: kubelet, versions: ">=1.33 <1.38"}, {component: etcd, versions: ~3.5}]}
- {alert: C, from: '{a="b"}', match: text of C, verified: none}
- {alert: D, from: '{a="b"}', match: text of D, enabled: false}
`
	doc, problems := rules.Parse(rules.File{Name: "p.yaml", Data: []byte(text)})
	require.Empty(t, problems.Errors(), problems.Error())
	set, _ := rules.Build([]*rules.Document{doc}, rules.Options{})
	f := func(running map[string][]string, want ...string) {
		t.Helper()
		var got []string
		for _, u := range set.Unverified(running) {
			line := u.Component + " " + u.Release + " " + strings.Join(u.Versions, ",") + ":"
			for _, r := range u.Rules {
				line += " " + r.Alert
			}
			got = append(got, line)
		}
		require.Equal(t, want, got)
	}
	f(nil)
	f(map[string][]string{"kubelet": {"v1.33.4+rke2r1", "v1.35.0"}, "etcd": {"3.5.21-0"}})
	f(map[string][]string{"kubelet": {"", "latest", "v1.36.0-5-gabcdef0"}, "kube-scheduler": {"v1.40.0"}})
	f(map[string][]string{"kubelet": {"v1.35.0", "v1.37.1", "v1.37.2+k3s1", "v1.38.0"}, "etcd": {"3.6.1"}},
		"kubelet 1.37 v1.37.1,v1.37.2+k3s1: A", "kubelet 1.38 v1.38.0: A B", "etcd 3.6 3.6.1: B")
}
