package shell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellWords(t *testing.T) {
	f := func(text string, words int, problem string) {
		t.Helper()
		w := Parse(text)
		require.Equal(t, words, w.Words, text)
		require.Equal(t, problem, w.Problem, text)
	}
	f("", 0, "")
	f("kubectl get pods -n 'a b' \"c d\" e\\ f", 7, "")
	f("a|b;c&&d # e f", 4, "")
	f(`a "$(b 'c d' | e)" f`, 6, "")
	f("a `b c` d", 5, "")
	f("kubectl get x -o jsonpath='{.a}{\"\\n\"}' | jq '.[] | {a, b}'", 7, "")
	f("echo {a,b} a{b}", 3, "")
	f("{ a; b; }", 2, "")
	f("a 'b", 0, "a quote is not closed")
	f(`a "b`, 0, "a quote is not closed")
	f("a $(b", 0, "reached EOF without matching `$(` with `)`")
	f("cat <<X\nX", 2, "here-documents are not understood")
}

func TestShellPlaces(t *testing.T) {
	f := func(text string, want ...Place) {
		t.Helper()
		require.Equal(t, want, Parse(strings.ReplaceAll(text, "V", string(Mark))).Places, text)
	}
	f("a V --b=V", Place{}, Place{})
	f("V", Place{command: true})
	f("A=V sudo V", Place{}, Place{command: true})
	f("a | V; b $(V)", Place{command: true}, Place{command: true})
	f(`a 'V*' "V" V*`, Place{}, Place{}, Place{glob: true})
	f("a # V", Place{})
	f("a >V", Place{redirect: true})
	f("bash -c 'a V'", Place{code: true})
	f("kubectl logs -c V", Place{})
	f("kubectl exec x -- /bin/sh -c 'V'", Place{code: true})
}

// Steps in the styles of shells: a value is an argument, or the step is refused.
func TestShellSteps(t *testing.T) {
	judged := func(text string) string {
		w := Parse(strings.ReplaceAll(text, "V", string(Mark)))
		for _, p := range w.Places {
			if message, _ := p.Danger(); message != "" {
				return message
			}
		}
		return w.Problem
	}
	safe := func(steps ...string) {
		t.Helper()
		for _, s := range steps {
			require.Empty(t, judged(s), s)
		}
	}
	refused := func(steps ...string) {
		t.Helper()
		for _, s := range steps {
			require.NotEmpty(t, judged(s), s)
		}
	}
	safe(
		"kubectl -n V logs V -c V --previous | grep -- V",
		"sudo -u root systemctl restart V",
		"sudo -n -- systemctl restart V",
		"env -i HOME=/root -u LANG kubectl get V",
		"timeout -k 5 30 kubectl wait V",
		"xargs -n 1 -P4 kubectl delete -n V",
		"kubectl get pods -n V -o name | xargs -r kubectl delete -n V",
		"kubectl get secret V -o jsonpath='{.data.a}' | base64 -d",
		`kubectl get V -o json | jq -r --arg n V '.items[] | select(.metadata.name == $n)'`,
		`awk -v n=V '$1 == n {print $2}' /tmp/list V`,
		"ssh -i key -o User=core V uptime",
		"ssh V",
		`sh -c 'kubectl delete pod "$1"' sh V`,
		"bash /opt/restart.sh V",
		"python3 -m json.tool V",
		"kubectl exec -it V -c V -- etcdctl endpoint health --cluster V",
		"docker exec -u root V ls /tmp",
		"find /var/log/pods -name 'V' -exec grep -l V {} +",
		"for p in V; do kubectl delete pod $p; done",
		"if kubectl get V; then echo V; fi",
		"command -v kubectl && kubectl get V",
		"trap - EXIT; kubectl get V",
		"kubectl get V 2>&1 | tail -n 3",
		"kubectl get V 2>/dev/null || echo V",
		`x="$(kubectl get V -o name)"; kubectl delete "$x"`,
		"diff <(kubectl get V) <(kubectl get V)",
		"(cd /tmp && tar -xf a.tar V)",
		"{ kubectl get V; }",
		"case V in a) echo V ;; esac",
		"nsenter -t 1 -m crictl rm V",
		"[ V = a ] && echo V",
		`[[ V == "a" ]] && echo V`,
		"kubectl debug node/V -it --image=x -- chroot /host crictl ps --name V",
		"LANG=V kubectl get pods",
		`echo "${HOME:-/root}" V`,
		"psql -h V -d V -c 'select 1'",
		"sed -n '/error/p' V",
		"sudo su - V",
		"Look at V (and at its {owner}) first",
	)
	refused(
		"sudo -u root V",
		"env -i V",
		"env -S 'V'",
		"env -u A B=c V",
		"xargs -n1 V",
		"xargs -I V V",
		"timeout 5 V",
		"nice -n 10 V",
		"nohup V &",
		"ip netns exec a V",
		"docker exec a V",
		"kubectl exec a -- V",
		"kubectl exec a -- sudo -n V",
		"kubectl exec a -- bash -ec 'V'",
		"kubectl debug node/a -it --image=x -- chroot /host sh -c 'V'",
		"docker run --rm a sh -lc 'V'",
		"find . -name a -exec V {} +",
		"find . -exec sh -c 'cat V' ';'",
		"bash -xec 'kubectl get V'",
		"bash -o pipefail -c 'V'",
		"sh -c -e 'V'",
		"sh -V",
		"bash V",
		`sh -c '$1 a' sh V`,
		`sh -c 'eval "$1"' sh V`,
		`bash -c '"$@"' bash V`,
		"su - core -c 'systemctl restart V'",
		"perl -ne 'print if /V/'",
		"python3 -c 'print(V)'",
		"python3 -m V",
		"node -e V",
		"ruby -lane 'puts V'",
		"ssh host 'systemctl restart V'",
		"ssh -p 22 host systemctl restart V",
		"ssh -o ProxyCommand=V host",
		"awk '/V/ {print}' /tmp/a",
		`awk "/V/" /tmp/a`,
		"gawk -F: '$1 == V' /etc/passwd",
		"jq '.items[V]' a.json",
		`kubectl get a -o json | jq -r ".V"`,
		"sed -i 's/a/V/' /tmp/a",
		"sed -e 's/a/b/' -e 's/a/V/'",
		"xargs sh -ec 'V'",
		"echo V | xargs -I{} sh -c 'rm {}'",
		"echo V | sh",
		"kubectl get V -o name | sed s/a/b/ | sudo bash -s",
		"(echo V; echo a) | sh -",
		"echo V | ssh host",
		"echo V | xargs sudo",
		"echo V | xargs -I{} {} a",
		"bash <(echo V)",
		"source <(kubectl completion V)",
		`eval "$(kubectl get V)"`,
		"$(kubectl get V) a",
		"trap 'rm V' EXIT",
		"alias a='V'",
		"watch -n 1 kubectl get V",
		"PATH=V kubectl get pods",
		"export LD_PRELOAD=V",
		"GIT_SSH_COMMAND=V git pull",
		`echo "${x:-V}"`,
		"echo ${V}",
		"echo $((V + 1))",
		"((V))",
		"let a=V",
		"[[ V -gt 3 ]] && echo a",
		"bash 2>&1 -c V",
		"echo a &>V",
		"echo a >| V",
		"echo a 2>>V",
		"cat <V",
		"cat <<<V",
		"while true; do V; done",
		"! V",
		"time -p V",
		"psql -c 'select V'",
		"mysql -e \"select 'V'\"",
		"\\sudo V",
		"/usr/bin/env V",
		"sudo /bin/sh -c V",
		"V=1 kubectl get pods",
		"a[V]=1",
		"Look at (V)",
		"Look at x (and; V)",
		"Look at x (and y\nsh -c V",
		"kubectl get V | sh\nLook at x (and y)",
		"Look at x (and y) | sudo V",
	)
}
