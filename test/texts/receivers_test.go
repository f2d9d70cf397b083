package texts

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"crowsnest/episodes"
	"crowsnest/redact"
	"crowsnest/rules"
)

// receiver is one kind of receiver with Alertmanager's defaults.
type receiver struct {
	name   string
	html   bool
	fields []string // templates
}

// allReceivers have the templates of Alertmanager's default configurations;
// only the long form uses those after the third.
var allReceivers = []receiver{
	{"slack", false, defaults("slack", "title", "titlelink", "fallback", "text", "pretext", "footer")},
	{"pagerduty", false, defaults("pagerduty", "description", "clientURL", "instances")},
	{"email", true, defaults("email", "html")},
	{"msteams", false, defaults("msteams", "title", "text")},
	{"discord", false, defaults("discord", "title", "message")},
	{"mattermost", false, defaults("mattermost", "title", "text")},
}

// subject contains the parts that show the labels of a single alert.
var subject = receiver{"email", false, defaults("email", "subject")}

func defaults(name string, fields ...string) (out []string) {
	for _, field := range fields {
		data := "."
		if field == "instances" {
			data = ".Alerts.Firing"
		}
		out = append(out, fmt.Sprintf("{{ template %q %s }}", name+".default."+field, data))
	}
	return out
}

// links are texts that chats, mail clients and consoles turn into a link, and
// markup of Markdown and Slack.
var links = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s<>"|]*|\bwww\.|(?:\b|_)(?:mailto|tel|sms|xmpp|javascript|vbscript|callto|skype|magnet):|[a-z0-9._%+-]+@(?:[a-z0-9-]+\.)+[a-z]{2,}|<[a-z!@#/?]|\]\(|\]\[|\]:\s*<?//|` + "`" + `|@(?:everyone|channel|here|all)\b|&#`)

// foreign returns the links in texts that lead to a host other than those of
// the rule. own has the rule's hosts and links, and the lines.
func foreign(texts []string, own map[string]bool) []string {
	var fresh []string
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			if key := "line " + strings.TrimSpace(line); !own[key] {
				own[key] = true
				fresh = append(fresh, line)
			}
		}
	}
	text := strings.ReplaceAll(strings.Join(fresh, "\n"), redact.Mask, "")
	return slices.DeleteFunc(links.FindAllString(text, -1), func(link string) bool {
		u, err := url.Parse(link)
		return own["link "+link] || err == nil && u.Host != "" && own[u.Host]
	})
}

// ownLinks are the hosts of the rule's own links and of its texts with harmless
// values.
func ownLinks(harmless posted) map[string]bool {
	own := map[string]bool{"crowsnest.example.org": true, "alertmanager.example.org": true}
	for _, text := range harmless.Annotations {
		for _, link := range links.FindAllString(text, -1) {
			own["link "+link] = true
			if u, err := url.Parse(link); err == nil && u.Host != "" {
				own[u.Host] = true
			}
		}
	}
	return own
}

func loadTemplates(t *testing.T) *template.Template {
	tmpl, err := template.FromGlobs(nil)
	require.NoError(t, err)
	tmpl.ExternalURL, err = url.Parse("https://alertmanager.example.org")
	require.NoError(t, err)
	return tmpl
}

// group is the template data of Alertmanager for the alerts of one rule.
func group(tmpl *template.Template, alerts ...posted) *template.Data {
	var all []*alert.Alert
	for _, a := range alerts {
		labels, annotations := model.LabelSet{}, model.LabelSet{}
		for name, value := range a.Labels {
			labels[model.LabelName(name)] = model.LabelValue(value)
		}
		for name, value := range a.Annotations {
			annotations[model.LabelName(name)] = model.LabelValue(value)
		}
		all = append(all, &alert.Alert{Alert: model.Alert{Labels: labels, Annotations: annotations, GeneratorURL: a.GeneratorURL}})
	}
	return tmpl.Data("team", model.LabelSet{"alertname": all[0].Labels["alertname"]}, nil, "", all...)
}

func (r receiver) render(t *testing.T, tmpl *template.Template, d *template.Data) string {
	var out []string
	execute := tmpl.ExecuteTextString
	if r.html {
		execute = tmpl.ExecuteHTMLString
	}
	for _, field := range r.fields {
		text, err := execute(field, d)
		require.NoError(t, err)
		out = append(out, text)
	}
	return strings.Join(out, "\n\n")
}

// shape is the structure of a rendered message: its lines, or elements with
// their attributes, without the lines that quote unsafe values. texts are the
// visible texts, and the targets of links.
func (r receiver) shape(t *testing.T, rendered string) (shape string, texts []string) {
	if !r.html {
		return fmt.Sprint(lines(rendered), " lines"), []string{rendered}
	}
	doc, err := html.Parse(strings.NewReader(rendered))
	require.NoError(t, err)
	var b strings.Builder
	for n := range doc.Descendants() {
		switch n.Type {
		case html.TextNode:
			texts = append(texts, n.Data)
			fmt.Fprintf(&b, "%d ", lines(n.Data))
		case html.ElementNode:
			b.WriteString("<" + n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key)
				if a.Key == "href" || a.Key == "src" {
					texts = append(texts, a.Val)
				}
			}
			b.WriteString(">")
		default:
			fmt.Fprintf(&b, "%d:", n.Type)
		}
	}
	return b.String(), texts
}

// lines counts the lines of a text by every character that is shown as a line
// break.
func lines(s string) int {
	n := 1
	for _, r := range s {
		if strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) {
			n++
		}
	}
	return n - strings.Count(s, "\nUNSAFE_VALUE_")
}

// incidents returns the posted alerts of a rule, those of each value by the
// name of the rule.
func incidents(t *testing.T, all []*rules.Rule, values []string) map[string][]posted {
	var eps []episodes.Episode
	for _, r := range all {
		for _, v := range values {
			ep := episodeOf(t, r, v, same(r, v))
			ep.Fingerprint = episodes.Fingerprint(len(eps))
			eps = append(eps, ep)
		}
	}
	got, out := post(t, eps), map[string][]posted{}
	for i, ep := range eps {
		out[ep.Alert] = append(out[ep.Alert], got[externalURL+"/episodes/"+episodes.Fingerprint(i).String()])
	}
	return out
}

// No value of a log line or a stream label becomes a link, a line or an element
// in the output of Alertmanager's default templates. The alerts pass through
// the engine and the sink.
func TestNoForeignLinksOrLinesInReceivers(t *testing.T) {
	list, receivers := linking, allReceivers[:3]
	if os.Getenv("CROWSNEST_CHAOS") != "" {
		receivers = allReceivers
		list = slices.DeleteFunc(append(hostile(), linking...), func(v string) bool { return v == "" })
	}
	tmpl, all := loadTemplates(t), shipped(t)
	harmless, found := incidents(t, all, []string{"x"}), incidents(t, all, list)
	for _, r := range all {
		plain, alerts := harmless[r.Alert][0], found[r.Alert]
		own := ownLinks(plain)
		for _, to := range receivers {
			want, _ := to.shape(t, to.render(t, tmpl, group(tmpl, slices.Repeat([]posted{plain}, len(alerts))...)))
			got, texts := to.shape(t, to.render(t, tmpl, group(tmpl, alerts...)))
			if want != got {
				t.Errorf("%s for %s: %.500s, want %.500s", r.Alert, to.name, got, want)
			}
			require.Empty(t, foreign(texts, own), "%s for %s", r.Alert, to.name)
		}
		for i, a := range alerts {
			title := subject.render(t, tmpl, group(tmpl, a))
			require.Equal(t, 1, lines(strings.TrimSpace(title)), "%s with %q", r.Alert, list[i])
			require.Empty(t, foreign([]string{title}, own), "%s with %q", r.Alert, list[i])
		}
	}
	t.Logf("%d rules with %d values for %d receivers", len(all), len(list), len(receivers)+1)
}
