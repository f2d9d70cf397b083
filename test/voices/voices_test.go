// Package voices tests that nobody speaks through a component: the words of a failure in a line
// that quotes them, such as a search in a log store or an object of a tenant, are no failure.
package voices

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/text"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// carrier is a line in which a program quotes a text.
type carrier struct {
	kind   string
	labels matcher.Labels // stream of the program that writes it
	// Of the text: $V is it, $TABS its lines behind tabs, $1, $2 and $3 it in one, two and three quotes
	// of Go, $P as $1 without the quotes, $J1 and $J2 as $P and $2 in JSON, $W and $JW in quotes that
	// escape nothing, $X as nginx writes it, $S SQL, $R Python, $H a shell, and $U a URL.
	format string
}

// lines returns the physical lines of a carrier with a text.
func (c carrier) lines(text string) []string {
	q := []string{text}
	for range 3 { // each in quotes of the one before
		next := strconv.Quote(q[len(q)-1])
		if len(q) > 1 {
			next = next[1 : len(next)-1]
		}
		q = append(q, next)
	}
	out := strings.NewReplacer(
		"$TABS", "\t"+strings.ReplaceAll(text, "\n", "\n\t"),
		"$P", inner(q[1]), "$1", q[1], "$2", q[2], "$3", q[3],
		"$W", inner(strconv.Quote(`"`+text+`"`)), // its own quotes are like those around it
		"$J1", inner(inJSON(text)), "$J2", inner(inJSON(q[1])), "$JW", inner(inJSON(`"`+text+`"`)),
		"$X", strings.NewReplacer(`"`, `\x22`, `\`, `\x5C`, "\n", `\x0A`, "\t", `\x09`).Replace(text),
		"$S", strings.ReplaceAll(q[0], "'", "''"), "$R", strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`).Replace(text),
		"$H", strings.ReplaceAll(text, "'", `'\''`), "$U", url.QueryEscape(text), "$V", text,
	).Replace(c.format)
	return strings.Split(out, "\n")
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

func inJSON(text string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}

// shipped returns the shipped rules with their tests.
func shipped(t *testing.T) (*rules.Set, *matcher.Program) {
	t.Helper()
	files, err := rulefiles.ReadFS(rules.Shipped())
	require.NoError(t, err)
	var docs []*rules.Document
	for _, f := range files {
		d, _ := rules.Parse(f)
		docs = append(docs, d)
	}
	set, problems := rules.Build(docs, rules.Options{})
	require.Empty(t, problems.Errors())
	for _, r := range set.Rules {
		r.Mode = rules.ModeOn
	}
	prog, err := matcher.Compile(set)
	require.NoError(t, err)
	return set, prog
}

// said is a line of a rule's tests that the rule matches.
type said struct {
	rule   *rules.Rule
	part   matcher.Part
	labels matcher.Labels
	text   string
}

var index = regexp.MustCompile(`\{\{-?\s*\$value\s*-?\}\}`)

// sayings returns each line of the inline tests that its rule matches.
func sayings(set *rules.Set, prog *matcher.Program) (out []said) {
	seen, known := map[string]bool{}, streams{}
	for _, r := range set.Rules {
		for _, test := range r.Tests {
			for _, in := range test.Input {
				line := index.ReplaceAllString(in.Text, "7")
				labels := matcher.Labels{}
				maps.Copy(labels, test.Stream)
				for name, v := range in.Labels {
					labels[name] = index.ReplaceAllString(v, "7")
				}
				maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
				key := fmt.Sprint(r.Alert, labels, line)
				if line == "" || seen[key] {
					continue
				}
				seen[key] = true
				for _, h := range known.hits(prog, labels, []string{line}) {
					if h.Rule == r {
						out = append(out, said{r, h.Part, labels, line})
						break
					}
				}
			}
		}
	}
	return out
}

// streams are those that were made, by their labels.
type streams map[string]*matcher.Stream

func (s streams) hits(prog *matcher.Program, labels matcher.Labels, lines []string) []matcher.Hit {
	key := text.FormatLabels(labels)
	if s[key] == nil {
		s[key] = matcher.NewStream(labels, matcher.StreamOptions{Format: matcher.FormatText, Join: matcher.JoinStream})
	}
	at := time.Unix(0, 0)
	return append(prog.Scan(s[key], []byte(strings.Join(lines, "\n")+"\n"), at), prog.Flush(s[key], at)...)
}

var klogHeader = regexp.MustCompile(`^[IWEF]\d{4} [^\]]*\] `)

// wordings returns the forms in which a line is quoted: whole, and without its header.
func wordings(line string) []string {
	if body := klogHeader.ReplaceAllString(line, ""); body != line {
		return []string{line, body}
	}
	return []string{line}
}

var (
	kubelet    = matcher.Labels{"unit": "kubelet.service", "node": "n1"}
	containerd = matcher.Labels{"unit": "containerd.service", "node": "n1"}
	apiserver  = matcher.Labels{"namespace": "kube-system", "pod": "kube-apiserver-cp-1", "container": "kube-apiserver"}
	manager    = matcher.Labels{"namespace": "capi-system", "pod": "capi-controller-manager-6d8b-x2x4p", "container": "manager"}
	kcm        = matcher.Labels{"namespace": "kube-system", "pod": "kube-controller-manager-cp-1", "container": "kube-controller-manager"}
)

const klog = `E0627 07:00:00.000000       1 controller.go:353] `

// carriers are lines of trusted components with words of tenants.
var carriers = []carrier{
	{"klog block", manager, klog + "\"Reconciler error\" err=<\n\tadmission webhook \"v.example.org\" denied the request:\n$TABS\n > controller=\"widget\" namespace=\"tenant\" name=\"w\""},
	{"klog block", kcm, "E0627 07:00:00.000000       1 garbagecollector.go:353] \"Unhandled Error\" err=<\n$TABS\n >"},
	{"quoted error", manager, klog + `"Reconciler error" err="admission webhook \"v.example.org\" denied the request: $2" controller="widget" namespace="tenant" name="w"`},
	{"quoted error", kcm, `E0627 07:00:00.000000       1 garbagecollector.go:353] "Unhandled Error" err="widget $2 is refused" logger="garbage-collector"`},
	{"wrapped error", manager, klog + `"Reconciler error" err="admission webhook \"v.example.org\" denied the request: $W" controller="widget" namespace="tenant" name="w"`},
	{"zap JSON", manager, `{"level":"error","ts":"2026-06-27T07:00:00Z","logger":"widget","msg":"Reconciler error","controller":"widget","widget":{"name":"w","namespace":"tenant","title":"$J1"},"namespace":"tenant","name":"w","title":"$J1","error":"title $J2 is refused"}`},
	{"zap JSON", manager, `{"level":"error","ts":1782543600.1,"logger":"widget","msg":"Reconciler error","error":"title is refused: $J2","stacktrace":"sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).Start\n\t/go/controller.go:227"}`},
	{"zap JSON", manager, "2026-06-27T07:00:00.000Z\tERROR\twidget\tReconciler error\t" + `{"controller": "widget", "namespace": "tenant", "title": "$J1", "error": "title $J2 is refused"}`},
	{"zap wrapped", manager, `{"level":"error","ts":1782543600.1,"logger":"widget","msg":"Reconciler error","error":"title $JW is refused"}`},
	{"image pull", kubelet, `E0627 07:00:00.000000    1296 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"web\" with InvalidImageName: \"Failed to apply default image tag $3: couldn't parse image name $3: invalid reference format\"" pod="tenant/web" podUID="0f6a2c9f"`},
	{"image pull", kubelet, `E0627 07:00:00.000000    1296 kuberuntime_image.go:55] "Failed to pull image" err="rpc error: code = Unknown desc = failed to pull and unpack image $2: not found" image=$1`},
	{"user agent", apiserver, `I0627 07:00:00.000000       1 httplog.go:132] "HTTP" verb="GET" URI="/api/v1/namespaces/tenant/pods?labelSelector=$P" latency="1.5ms" userAgent=$1 audit-ID="9b0f2c31" srcIP="10.0.0.9:4711" resp=403`},
	{"user agent", apiserver, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"9b0f2c31","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/tenant/pods?labelSelector=$J1","verb":"create","user":{"username":"system:serviceaccount:tenant:default"},"userAgent":"$J1","requestObject":{"metadata":{"annotations":{"a":"$J1"}}},"responseStatus":{"code":403,"message":"title $J2 is refused"}}`},
	{"containerd", containerd, `time="2026-06-27T07:00:00.000000000Z" level=error msg="PullImage $2 failed" error="failed to parse reference $2: invalid reference format"`},
	{"containerd", containerd, `time="2026-06-27T07:00:00.000000000Z" level=info msg="Exec process in \"tenant\" with command [$2]" annotation=$1`},
}

// TestComponentsQuote embeds the lines of each rule that trusts infrastructure only into lines
// of trusted components, in the streams that the rule reads and in those of the component. No
// such rule is raised, and no alert is ended or muted.
func TestComponentsQuote(t *testing.T) {
	set, prog := shipped(t)
	var got found
	infrastructure := map[string]bool{}
	for _, x := range sayings(set, prog) {
		if x.rule.LineOrigin() != rules.OriginInfrastructure {
			continue
		}
		infrastructure[x.rule.Alert] = true
		for _, c := range carriers {
			got.embed(prog, x, c, x.labels, c.labels)
		}
	}
	t.Logf("%d rules, %d lines of components: %d rules raised, %d ended or muted",
		len(infrastructure), got.lines, len(got.raised), len(got.ended))
	require.Greater(t, len(infrastructure), 300)
	require.Empty(t, got.raised)
	require.Empty(t, got.ended)
}

// found is what lines that quote did.
type found struct {
	lines         int
	raised, ended map[string]string // by rule, with the first line
	streams       streams
	harmless      map[string]bool // what a carrier does without the words of a failure
}

// embed quotes a line in a carrier, in streams with the labels.
func (f *found) embed(prog *matcher.Program, x said, c carrier, in ...matcher.Labels) {
	if f.raised == nil {
		f.raised, f.ended, f.harmless, f.streams = map[string]string{}, map[string]string{}, map[string]bool{}, streams{}
	}
	for _, labels := range in {
		if key := c.format + text.FormatLabels(labels); !f.harmless[key] {
			f.harmless[key] = true
			for _, h := range f.streams.hits(prog, labels, c.lines("words of a tenant")) {
				f.harmless[c.format+h.Rule.Alert] = true
			}
		}
		for _, words := range wordings(x.text) {
			f.lines++
			for _, h := range f.streams.hits(prog, labels, c.lines(words)) {
				what := f.raised
				if h.Part < 0 {
					what = f.ended
				}
				if what[h.Rule.Alert] == "" && !f.harmless[c.format+h.Rule.Alert] {
					what[h.Rule.Alert] = c.kind + ": " + strings.Join(c.lines(words), "\n")
				}
			}
		}
	}
}

// programs quote what somebody searches, asks or sends.
var programs = []carrier{
	{"loki", nil, `level=info ts=2026-11-28T00:00:00Z caller=engine.go:265 component=querier org_id=fake msg="executing query" type=range query=$1 length=1h0m0s step=14s`},
	{"loki", nil, `level=info ts=2026-11-28T00:00:00Z caller=metrics.go:237 component=frontend org_id=fake latency=fast query="{namespace=\"kube-system\"} |= $2" query_hash=1 query_type=filter status=200`},
	{"loki", nil, "level=info ts=2026-11-28T00:00:00Z caller=metrics.go:237 component=frontend org_id=fake latency=fast query=\"{namespace=\\\"kube-system\\\"} |= `$P`\" query_hash=1 query_type=filter status=200"},
	{"loki", nil, `level=error ts=2026-11-28T00:00:00Z caller=retry.go:95 org_id=fake msg="error processing request" try=0 query=$1 err="rpc error: code = Code(400) desc = parse error at line 1, col 9: syntax error: unexpected $2"`},
	{"loki", nil, `level=info ts=2026-11-28T00:00:00Z caller=roundtrip.go:260 org_id=fake msg="executing query" type=range query=$1 param_query="%7Bnamespace%3D%22kube-system%22%7D+%7C%3D+%60$U%60"`},
	{"grafana", nil, `logger=tsdb.loki endpoint=queryData t=2026-11-28T00:00:00Z level=info msg="Prepared request to call data source" url="http://loki/loki/api/v1/query_range?query=$U" expr=$1`},
	{"grafana", nil, `logger=context userId=1 orgId=1 uname=admin t=2026-11-28T00:00:00Z level=info msg="Request Completed" method=GET path=/explore status=200 remote_addr=10.0.0.9 referer="https://grafana/explore?left=$U" handler=/explore error="parse error: $2"`},
	{"grafana", nil, `logger=ngalert.scheduler t=2026-11-28T00:00:00Z level=error msg="Failed to evaluate rule" error="failed to build query 'A': $2"`},
	{"prometheus", nil, `ts=2026-11-28T00:00:00Z caller=manager.go:663 level=warn component="rule manager" group=logs msg="Evaluating rule failed" rule="alert: Logs\nexpr: $P\n" err="found duplicate series for the match group {}"`},
	{"prometheus", nil, `time=2026-11-28T00:00:00Z level=WARN source=engine.go:900 msg="error evaluating query" query=$1 err="parse error: unexpected string $2"`},
	{"alertmanager", nil, `ts=2026-11-28T00:00:00Z caller=dispatch.go:353 level=error component=dispatcher msg="Notify for alerts failed" num_alerts=1 err="slack/webhook[0]: notify retry canceled: unexpected status code 400: $2"`},
	{"promtail", nil, `level=error ts=2026-11-28T00:00:00Z caller=client.go:430 component=client host=loki msg="final error sending batch" status=400 error="server returned HTTP status 400 Bad Request (400): entry for stream '{app=\"a\"}' has timestamp too new: entry $2"`},
	{"promtail", nil, `level=warn ts=2026-11-28T00:00:00Z caller=regex.go:120 component=file_pipeline msg="failed to match" line=$1`},
	{"crowsnest", nil, `{"level":"warn","rule":"x","query":"$J1","error":"loki: status 400: parse error: $J2","time":"2026-11-28T00:00:00Z","message":"the query failed"}`},
	{"crowsnest", nil, `00:00:00 WRN the query failed error="parse error: $2" query=$1 source=loki`},
	{"nginx", nil, `10.0.0.9 - - [28/Nov/2026:00:00:00 +0000] "GET /search?q=$X HTTP/1.1" 200 17 "-" "$X"`},
	{"nginx", nil, `2026/11/28 00:00:00 [error] 31#31: *7 open() "/usr/share/nginx/html/$V" failed (2: No such file or directory), client: 10.0.0.9, server: localhost, request: "GET /$V HTTP/1.1", host: "a"`},
	{"istio-proxy", nil, `[2026-11-28T00:00:00.000Z] "GET /search?q=$V HTTP/1.1" 200 - via_upstream - "-" 0 17 2 1 "-" "$V" "9b0f2c31" "a" "10.0.0.9:80" inbound|80|| 127.0.0.6:1 10.0.0.9:80 10.0.0.9:1 - default`},
	{"traefik", nil, `{"ClientAddr":"10.0.0.9:1","RequestMethod":"GET","RequestPath":"/search?q=$J1","request_User-Agent":"$J1","level":"info","msg":"","time":"2026-11-28T00:00:00Z"}`},
	{"elasticsearch", nil, `[2026-11-28T00:00:00,000][WARN ][index.search.slowlog.query] [es-0] [logs][0] took[1.2s], took_millis[1200], total_hits[1 hits], stats[], search_type[QUERY_THEN_FETCH], total_shards[1], source[{"query":{"match_phrase":{"message":{"query":"$J1"}}}}], id[]`},
	{"elasticsearch", nil, `{"@timestamp":"2026-11-28T00:00:00Z","log.level":"WARN","message":"failed to parse query [$J2]","elasticsearch.slowlog.source":"{\"query\":{\"match\":{\"message\":$J2}}}","ecs.version":"1.2.0"}`},
	{"postgres", nil, `2026-11-28 00:00:00.000 UTC [71] LOG:  duration: 1200.1 ms  statement: SELECT * FROM logs WHERE line LIKE '%$S%' LIMIT 10`},
	{"postgres", nil, `2026-11-28 00:00:00.000 UTC [71] ERROR:  invalid input syntax for type integer: "$V"`},
	{"mysql", nil, "2026-11-28T00:00:00.000000Z\t   12 Query\tSELECT * FROM logs WHERE line LIKE '%$S%'"},
	{"runner", nil, `+ grep -c '$H' /tmp/kubelet.log`},
	{"runner", nil, `+ kubectl logs deploy/a | grep -q "$V"`},
	{"argo", nil, `time="2026-11-28T00:00:00.000Z" level=info msg="capturing logs" argo=true command="[sh -c grep $2]"`},
	{"argocd", nil, `{"args":["grep","$J1"],"level":"info","msg":"running command","dir":"/tmp","execID":"1","time":"2026-11-28T00:00:00Z"}`},
	{"assistant", nil, `{"level":"info","msg":"chat completion","model":"m","messages":[{"role":"user","content":"why does it log: $J1"}],"tokens":17}`},
	{"assistant", nil, `{"level":"info","msg":"chat completion","prompt":"$J1","answer":"The line $J2 means that"}`},
	{"assistant", nil, `INFO:agent:prompt='why does it log $R?' tokens=17`},
	{"assistant", nil, `2026-11-28 00:00:00,000 - agent - INFO - calling tool search_logs with {'query': '$R', 'limit': 10}`},
	{"mcp", nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search","arguments":{"query":"$J1"}}}`},
	{"java", nil, `2026-11-28 00:00:00.000  INFO 1 --- [nio-8080-exec-1] c.e.SearchController : Request body: {"query": "$J1", "size": 10}`},
	{"java", nil, `2026-11-28T00:00:00.000Z ERROR [http-nio-1] c.e.SearchController - No result for query "$V"`},
	{"node", nil, `{"level":30,"time":1782543600000,"pid":1,"hostname":"a","req":{"method":"POST","url":"/search","body":{"q":"$J1"}},"msg":"request completed"}`},
	{"kyverno", nil, `{"level":"error","ts":"2026-11-28T00:00:00Z","logger":"webhooks","msg":"validation failed","action":"Enforce","resource":"shop/Pod/web","failed rules":["check"],"error":"annotation $J2 is not allowed"}`},
	{"falco", nil, `{"hostname":"n1","output":"00:00:00.000000000: Notice A shell was spawned (user=root cmdline=grep $J1 terminal=1)","priority":"Notice","rule":"Terminal shell in container","output_fields":{"proc.cmdline":"grep $J1"}}`},
	{"otel-collector", nil, "2026-11-28T00:00:00.000Z\tinfo\tResourceLog #0\t{\"kind\": \"exporter\", \"body\": \"$J1\"}"},
	{"fluent-bit", nil, `[2026/11/28 00:00:00] [ warn] [engine] failed to flush chunk, entry {"log"=>"$V"}`},
	{"vector", nil, `2026-11-28T00:00:00.000000Z  WARN transform{component_id=parse}: vector::internal_events: Mapping failed with event. error="function call error for \"parse_json\" at (3:21): unable to parse $2" internal_log_rate_limit=true`},
}

// TestProgramsQuote embeds the lines of critical rules in the lines of programs that quote them, in
// their streams, in an infrastructure namespace, and in the streams that the rules read. Nothing
// is raised.
func TestProgramsQuote(t *testing.T) {
	set, prog := shipped(t)
	var got found
	critical, kinds := map[string]int{}, map[string]bool{}
	for _, x := range sayings(set, prog) {
		if x.rule.Severity != "critical" || x.part < 0 {
			continue
		}
		if critical[x.rule.Alert]++; critical[x.rule.Alert] > 2 {
			continue
		}
		for _, c := range programs {
			kinds[c.kind] = true
			labels := matcher.Labels{"namespace": "monitoring", "pod": c.kind + "-0", "container": c.kind}
			infrastructure := maps.Clone(labels)
			infrastructure["namespace"] = "kube-system"
			got.embed(prog, x, c, x.labels, labels, infrastructure)
		}
	}
	t.Logf("%d critical rules in %d forms of %d programs, %d lines: %d rules raised", len(critical), len(programs), len(kinds), got.lines, len(got.raised))
	require.Greater(t, len(kinds), 20)
	require.Greater(t, len(critical), 20)
	require.Empty(t, got.raised)
}
