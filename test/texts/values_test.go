// Package texts tests that no text of a log line becomes a command, a link or a
// separate line where an alert is shown.
package texts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
	"crowsnest/rules"
)

// payload is a command that leaves a mark if a shell runs it.
const payload = "pwn"

// forms place a command, %s, where a shell may execute it.
var forms = []string{
	"a; %s", "a;%s", "a\n%s", "a\r\n%s\n", "a & %s &", "a && %s", "a || %s", "a | %s", "|%s", "a |& %s",
	"$(%s)", "a$(%s)b", "`%s`", "a`%s`b", "$(`%s`)", "\"$(%s)\"", "\"; %s; \"", "'; %s; '", "' $(%s) '", "a'$(%s)'b",
	"\\\"; %s #", "\\'; %s #", "'\"'; %s #", "<(%s)", ">(%s)", "a <<X\n$(%s)\nX\n", "<<<$(%s)", "${x:-$(%s)}", "${x:=`%s`}", "$((`%s`))",
	"a[$(%s)]", "{a,$(%s)}", "-o=$(%s)", "--kubeconfig=`%s`", "-n x; %s", "=$(%s)", "~$(%s)", "!%s", "a\n!%s", "# \n%s",
	"a) ; %s; (", "a } ; %s; {", "); %s #", "fi; %s", "done; %s", "esac; %s", "x() { %s; }; x", "time %s", "! %s", "a\u2028%s",
	"a\u2029%s", "a\u0085%s", "a\u00a0;%s", "a\v%s", "a\f%s", "a\x00\n%s", "a\x1b[2K\r%s\n", "a\x1b]0;x\x07\n%s", "\u202e;%s", "\u200b;%s",
	"a\u3000;%s", "a\\\n;%s", "a\\;%s", "';%s;'", "$'\\n'%s", "$'; %s'", "\"\n%s\n\"", "'\n%s\n'", "[[ a ]]; %s", "((1)); %s",
	"%s", "%s;", "\n%s", " %s", "a\t%s", "a;eval %s", "a;command %s", "a;exec %s", "x=1 %s", "a;. /dev/stdin <<<%s",
}

// values are not commands: they split words, name files or options, or are
// long.
var values = []string{
	"", " ", "-", "--", "-rf", "--all", "-A", "-o", "*", "?", "[a-z]", "{a,b}", "~", "~root", "=", "=x", "a=b", "a,b", "!", "!!", "!-1", "^a^b",
	"a b", "a\tb", "a\nb", "a'b", "a\"b", "a\\", "\\", "#", "# a", "a # b", "<", ">", "<x", ">x", "> mark", ">>mark", "2>mark", "&>mark", "a>mark", "<>mark",
	"$", "$a", "$$", "$?", "${", "$(", "`", "(", ")", "{", "}", "[", "]", "[[", "%1", "%s", "@", "../../etc", "/etc/passwd", "a/../b", "a//b", "//evil.example.org",
	"\u202eabc", "\u200b", "a\u00a0b", "\ufeff", "é", "日本", "😀", "\xff", "\x00", "\x1b[31m", "\u2028", "\u2029",
	"https://evil.example.org/a", "<https://evil.example.org|click>", "[x](https://evil.example.org)", "<!channel>", "@here", "www.evil.example.org", "mailto:a@evil.example.org",
	"javascript:alert(1)", "<a href=//evil.example.org>x</a>", "`code`", "![x](http://evil.example.org/i.png)", "[1]: http://evil.example.org", "<img src=x>", "HTTPS://EVIL.example.org", "a:https://evil.example.org",
}

// linking are values that chats, mail clients or Markdown turn into a link, or
// elements of HTML.
var linking = []string{
	"http://evil.example.org", "https://user:pw@evil.example.org:8443/a?b=c#d", "http://[2001:db8::1]:80/x", "http://192.0.2.1/x", "https://xn--80ak6aa92e.com/",
	"https://evil。example。org/x", "ftp://evil.example.org", "slack://channel?id=1", "http:// evil.example.org", "http:\u200b//evil.example.org", "WWW.EVIL.example.org", "www\u200b.evil.example.org",
	"a@evil.example.org", "mailto:a@evil.example.org", "_mailto:a@b.example.org_", "tel:+1900555", "TEL:1", "sms:1", "xmpp:a@b", "data:text/html,x", "vbscript:x", "skype:x?call", "magnet:?x=y",
	"<http://evil.example.org>", "<https://evil.example.org|https://crowsnest.example.org>", "<mailto:a@b.example.org|x>", "<tel:1|x>", "<@U012AB3CD>", "<#C1|x>", "<!subteam^S1>", "<!date^1^{date}^https://evil.example.org|x>",
	"@everyone", "@channel", "@all", "[a]: //evil.example.org", "[a]: <//evil.example.org>", "[a][1]", "[a](//evil.example.org)", "[a] (//evil.example.org)", "![a](//evil.example.org/x.png)",
	"a<br>b", "a<br/>b", "<p>a</p>", "<h1>a</h1>", "<script src=//evil.example.org></script>", "</td></tr><tr><td>", "<!-- a", "<?x", "<svg/onload=x>", "&#104;ttps://evil.example.org", "https&#58;//evil.example.org", "https&colon;//evil.example.org", "&lt;a href=//evil.example.org&gt;",
	"a\\nb", "a&#10;b", "a&NewLine;b", "a\r\n\r\nSubject: x", "a\n# Alerts Firing:\nx", "x\n - runbook_url = https://evil.example.org",
}

// ordinary are values that steps show unchanged.
var ordinary = []string{
	"kube-system", "shop/web-0", "Deployment/shop/web", "10.0.0.1", "10.0.0.1:6443", "fd00::1", "v1.30.4+k3s1", "node-1.example.com", "system:serviceaccount:shop:web", "machines.cluster.x-k8s.io",
}

// hostile returns all harmful values that a log line may contain.
func hostile() []string {
	out := slices.Clone(values)
	for _, f := range forms {
		if !strings.Contains(f, "%s") {
			panic("a form without a command: " + f)
		}
		for _, command := range []string{payload, "echo x; " + payload, payload + " x >mark"} {
			out = append(out, fmt.Sprintf(f, command))
		}
	}
	return append(out, strings.Repeat("a", 70_000), strings.Repeat("a;"+payload+";", 500), strings.Repeat("x", 250)+";"+payload)
}

func shipped(t *testing.T) []*rules.Rule {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	return set.Rules
}

// named returns data with a value for each name that the rule's texts use.
func named(r *rules.Rule, value string) rules.TemplateData {
	d := rules.TemplateData{Labels: map[string]string{}, Vars: map[string]string{}, Value: 3, Line: value}
	templates := slices.Clone(r.Remediation.Steps)
	for _, a := range r.Annotations {
		templates = append(templates, a.Template)
	}
	for _, tm := range templates {
		for _, name := range tm.Labels() {
			d.Labels[name] = value
		}
		for _, name := range tm.Vars() {
			d.Vars[name] = value
		}
	}
	return d
}

// withLabels adds the labels that an alert of the rule has.
func withLabels(r *rules.Rule, d rules.TemplateData) rules.TemplateData {
	d.Labels = maps.Clone(d.Labels)
	d.Labels["alertname"], d.Labels["severity"], d.Labels["resolves"] = r.Alert, string(r.Severity), r.Resolves()
	return d
}

func neutral(s string) string { return redact.DefuseLinks(redact.Sanitise(s)) }
