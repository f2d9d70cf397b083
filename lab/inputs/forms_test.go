package inputs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/sources/kubelet"
)

// wrapped is a line of a container, with what an envelope may say about it.
type wrappedLine struct {
	ns, pod, container string
	at                 time.Time
	text               string
}

func (l wrappedLine) rfc() string { return l.at.UTC().Format("2006-01-02T15:04:05.000000000Z") }

func quoteJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// each wraps every line alone.
func each(f func(l wrappedLine) string) func([]wrappedLine) string {
	return func(lines []wrappedLine) string {
		var b strings.Builder
		for _, l := range lines {
			b.WriteString(f(l) + "\n")
		}
		return b.String()
	}
}

// listed wraps the lines as elements of a list.
func listed(before, between, after string, f func(l wrappedLine) string) func([]wrappedLine) string {
	return func(lines []wrappedLine) string {
		var all []string
		for _, l := range lines {
			all = append(all, f(l))
		}
		return before + strings.Join(all, between) + after
	}
}

// form is an envelope. Without labels or time it does not state them.
type form struct {
	name     string
	wrap     func([]wrappedLine) string
	unplaced bool // states no pod
	around   int  // lines beside those of the log
}

func bareText(lines []wrappedLine) string {
	return each(func(l wrappedLine) string { return l.text })(lines)
}

func indentJSON(text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	b, _ := json.MarshalIndent(v, "", "  ")
	return string(b)
}

func numbered(form string) func([]wrappedLine) string {
	return func(lines []wrappedLine) string {
		var b strings.Builder
		for i, l := range lines {
			fmt.Fprintf(&b, form+"\n", i+1, l.text)
		}
		return b.String()
	}
}

func fluentBit(l wrappedLine) string {
	return fmt.Sprintf(`{"date":%d.%09d,"time":"%s","stream":"stderr","_p":"F","log":%s,"kubernetes":{"pod_name":"%s","namespace_name":"%s","pod_id":"1b8f4d5e-3a56-4bde-8a8c-d5ab3d4d2b91","labels":{"app":"x","cluster.x-k8s.io/cluster-name":"other"},"host":"node-1","container_name":"%s","docker_id":"%s"}}`,
		l.at.Unix(), l.at.Nanosecond(), l.rfc(), quoteJSON(l.text), l.pod, l.ns, l.container, strings.Repeat("ab", 32))
}

func gcp(l wrappedLine) string {
	return fmt.Sprintf(`{"insertId":"abc123","labels":{"compute.googleapis.com/resource_name":"gke-node","k8s-pod/app":"x"},"logName":"projects/p/logs/stderr","receiveTimestamp":"2031-01-01T00:00:00Z","resource":{"labels":{"cluster_name":"prod","container_name":"%s","location":"eu","namespace_name":"%s","pod_name":"%s","project_id":"p"},"type":"k8s_container"},"severity":"ERROR","textPayload":%s,"timestamp":"%s"}`,
		l.container, l.ns, l.pod, quoteJSON(l.text), l.rfc())
}

func elastic(l wrappedLine) string {
	return fmt.Sprintf(`{"_index":"logs-1","_id":"x","_score":null,"_source":{"@timestamp":"%s","message":%s,"stream":"stderr","kubernetes":{"namespace":"%s","pod":{"name":"%s","uid":"1"},"container":{"name":"%s"},"labels":{"app":"y"},"node":{"name":"n"}},"log":{"file":{"path":"/var/log/containers/x.log"},"offset":17},"agent":{"type":"filebeat","name":"filebeat-x"},"ecs":{"version":"8.0.0"}}}`,
		l.rfc(), quoteJSON(l.text), l.ns, l.pod, l.container)
}

func otlp(lines []wrappedLine) string {
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"k8s.namespace.name","value":{"stringValue":"%s"}},{"key":"k8s.pod.name","value":{"stringValue":"%s"}},{"key":"k8s.container.name","value":{"stringValue":"%s"}}]},"scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"%d","observedTimeUnixNano":"1900000000000000000","severityText":"","body":{"stringValue":%s},"attributes":[{"key":"log.iostream","value":{"stringValue":"stderr"}},{"key":"logtag","value":{"stringValue":"F"}}]}]}]}]}`,
			l.ns, l.pod, l.container, l.at.UnixNano(), quoteJSON(l.text)))
	}
	return strings.Join(out, "\n") + "\n"
}

func loki(lines []wrappedLine) string {
	byPod := map[string][]string{}
	labels := map[string]string{}
	for _, l := range lines {
		byPod[l.pod] = append(byPod[l.pod], fmt.Sprintf(`["%d",%s]`, l.at.UnixNano(), quoteJSON(l.text)))
		labels[l.pod] = fmt.Sprintf(`{"namespace":"%s","pod":"%s","container":"%s","job":"x"}`, l.ns, l.pod, l.container)
	}
	var streams []string
	for _, pod := range slices.Sorted(maps.Keys(byPod)) {
		slices.Reverse(byPod[pod])
		streams = append(streams, `{"stream":`+labels[pod]+`,"values":[`+strings.Join(byPod[pod], ",")+`]}`)
	}
	return `{"status":"success","data":{"resultType":"streams","result":[` + strings.Join(streams, ",") + `],"stats":{"summary":{"bytesProcessedPerSecond":1}}}}`
}

func newest(f func([]wrappedLine) string) func([]wrappedLine) string {
	return func(lines []wrappedLine) string {
		lines = slices.Clone(lines)
		slices.Reverse(lines)
		return f(lines)
	}
}

// forms are the envelopes that the layer was made with.
var forms = []form{
	{"kubectl --timestamps", each(func(l wrappedLine) string { return l.rfc() + " " + l.text }), true, 0},
	{"kubectl --prefix", each(func(l wrappedLine) string { return "[pod/" + l.pod + "/" + l.container + "] " + l.text }), false, 0},
	{"kubectl --prefix --timestamps", each(func(l wrappedLine) string {
		return "[pod/" + l.pod + "/" + l.container + "] " + l.rfc() + " " + l.text
	}), false, 0},
	{"stern", each(func(l wrappedLine) string { return l.pod + " " + l.container + " " + l.text }), false, 0},
	{"stern -A", each(func(l wrappedLine) string { return l.ns + " " + l.pod + " " + l.container + " " + l.text }), false, 0},
	{"stern -t", each(func(l wrappedLine) string { return l.pod + " " + l.container + " " + l.rfc() + " " + l.text }), false, 0},
	{"stern in colours", each(func(l wrappedLine) string {
		return "\x1b[95m" + l.pod + "\x1b[0m \x1b[96m" + l.container + "\x1b[0m " + l.text
	}), false, 0},
	{"stern -o json", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"message":%s,"nodeName":"n-1","namespace":"%s","podName":"%s","containerName":"%s"}`, quoteJSON(l.text), l.ns, l.pod, l.container)
	}), false, 0},
	{"kail", each(func(l wrappedLine) string { return l.ns + "/" + l.pod + "[" + l.container + "]: " + l.text }), false, 0},
	{"kubetail", each(func(l wrappedLine) string { return "[" + l.pod + "] " + l.text }), false, 0},
	{"fluent-bit", each(fluentBit), false, 0},
	{"GCP", listed("[\n  ", ",\n  ", "\n]\n", gcp), false, 0},
	{"GCP pretty", listed("[\n", ",\n", "\n]\n", func(l wrappedLine) string { return indentJSON(gcp(l)) }), false, 0},
	{"GCP newest first", newest(listed("[", ",", "]", gcp)), false, 0},
	{"elastic", listed(`{"took":3,"hits":{"total":{"value":2},"hits":[`, ",", "]}}", elastic), false, 0},
	{"elastic lines", each(elastic), false, 0},
	{"OTLP", otlp, false, 0},
	{"Loki", loki, false, 0},
	{"logcli jsonl", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"labels":{"container":"%s","namespace":"%s","pod":"%s","stream":"stderr"},"line":%s,"timestamp":"%s"}`, l.container, l.ns, l.pod, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"logcli", each(func(l wrappedLine) string {
		return fmt.Sprintf(`%s {container="%s", namespace="%s", pod="%s"} %s`, l.at.Format("2006-01-02T15:04:05Z"), l.container, l.ns, l.pod, l.text)
	}), false, 0},
	{"Grafana text", func(lines []wrappedLine) string {
		return "Common labels: {\"job\":\"x\"}\nLine limit: 1000\nTotal bytes processed: \"1.2 MB\"\n\n\n" + newest(each(func(l wrappedLine) string { return l.at.Format("2006-01-02T15:04:05.000Z") + "\t" + l.text }))(lines)
	}, true, 5},
	{"Grafana JSON", listed("[", ",", "]", func(l wrappedLine) string {
		return fmt.Sprintf(`{"line":%s,"timestamp":"%d","date":"%s","fields":{"namespace":"%s","pod":"%s","container":"%s"}}`, quoteJSON(l.text), l.at.UnixNano(), l.at.Format("2006-01-02T15:04:05.000Z"), l.ns, l.pod, l.container)
	}), false, 0},
	{"journalctl -o json", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"%d","_HOSTNAME":"n1","PRIORITY":"6","_TRANSPORT":"stdout","SYSLOG_IDENTIFIER":"x","_PID":"12","MESSAGE":%s}`, l.at.UnixMicro(), quoteJSON(l.text))
	}), true, 0},
	{"journalctl", each(func(l wrappedLine) string { return l.at.Format("Jan 02 15:04:05") + " n1 kubelet[123]: " + l.text }), true, 0},
	{"RFC 5424", each(func(l wrappedLine) string {
		return "<30>1 " + l.at.Format("2006-01-02T15:04:05.000000Z") + " n1 kubelet 123 - - " + l.text
	}), true, 0},
	{"compose", each(func(l wrappedLine) string { return "manager-1  | " + l.text }), true, 0},
	{"colours", each(func(l wrappedLine) string { return "\x1b[31m" + l.text + "\x1b[0m" }), true, 0},
	{"quote", each(func(l wrappedLine) string { return "> " + l.text }), true, 0},
	{"cat -n", numbered("%6d\t%s"), true, 0},
	{"HTML", each(func(l wrappedLine) string { return html.EscapeString(l.text) }), true, 0},
	{"backslashes", each(func(l wrappedLine) string { return strings.ReplaceAll(l.text, `"`, `\"`) }), true, 0},
	{"JSON strings", each(func(l wrappedLine) string { return quoteJSON(l.text) }), true, 0},
	{"one JSON string", func(lines []wrappedLine) string { return quoteJSON(bareText(lines)) }, true, 0},
	{"indented", each(func(l wrappedLine) string { return "    " + l.text }), true, 0},
	{"BOM", func(lines []wrappedLine) string { return "\ufeff" + bareText(lines) }, true, 0},
	{"NBSP", each(func(l wrappedLine) string { return strings.ReplaceAll(l.text, " ", "\u00a0") }), true, 0},
	{"UTF-16", func(lines []wrappedLine) string { return "\xff\xfe" + utf16Of(bareText(lines), false) }, true, 0},
	{"CRLF", func(lines []wrappedLine) string { return strings.ReplaceAll(bareText(lines), "\n", "\r\n") }, true, 0},
	{"NULs", func(lines []wrappedLine) string { return bareText(lines) + strings.Repeat("\x00", 4096) }, true, 0},
	{"Splunk", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"preview":false,"offset":0,"result":{"_raw":%s,"_time":"%s","host":"n","source":"/var/log/pods/%s_%s_1b8f4d5e-3a56-4bde-8a8c-d5ab3d4d2b91/%s/0.log","sourcetype":"kube:container"}}`, quoteJSON(l.text), l.at.Format("2006-01-02T15:04:05.000000-00:00"), l.ns, l.pod, l.container)
	}), false, 0},
	{"Datadog", listed(`{"data":[`, ",", `],"meta":{}}`, func(l wrappedLine) string {
		return fmt.Sprintf(`{"id":"A","type":"log","attributes":{"message":%s,"status":"error","service":"x","host":"n","timestamp":"%s","tags":["env:prod","kube_namespace:%s","pod_name:%s","kube_container_name:%s"]}}`, quoteJSON(l.text), l.rfc(), l.ns, l.pod, l.container)
	}), false, 0},
	{"CloudWatch", listed(`{"events":[`, ",", `],"nextForwardToken":"f/1"}`, func(l wrappedLine) string {
		return fmt.Sprintf(`{"timestamp":%d,"message":%s,"ingestionTime":1900000000000}`, l.at.UnixMilli(), quoteJSON(fluentBit(l)))
	}), false, 0},
	{"Azure", func(lines []wrappedLine) string {
		return listed(`{"tables":[{"name":"PrimaryResult","columns":[{"name":"TimeGenerated","type":"datetime"},{"name":"LogMessage","type":"dynamic"},{"name":"PodName","type":"string"},{"name":"PodNamespace","type":"string"},{"name":"ContainerName","type":"string"},{"name":"LogSource","type":"string"}],"rows":[`, ",", `]}]}`, func(l wrappedLine) string {
			return fmt.Sprintf(`["%s",%s,"%s","%s","%s","stderr"]`, l.rfc(), quoteJSON(l.text), l.pod, l.ns, l.container)
		})(lines)
	}, false, 0},
	{"CSV", func(lines []wrappedLine) string {
		return "TimeGenerated,PodNamespace,PodName,ContainerName,LogMessage\n" + each(func(l wrappedLine) string {
			return fmt.Sprintf(`%s,%s,%s,%s,"%s"`, l.rfc(), l.ns, l.pod, l.container, strings.ReplaceAll(l.text, `"`, `""`))
		})(lines)
	}, false, 0},
	{"promtail push", func(lines []wrappedLine) string {
		return listed(`{"streams":[`, ",", `]}`, func(l wrappedLine) string {
			return fmt.Sprintf(`{"values":[["%d",%s]],"stream":{"pod":"%s","namespace":"%s","container":"%s"}}`, l.at.UnixNano(), quoteJSON(l.text), l.pod, l.ns, l.container)
		})(lines)
	}, false, 0},
	{"vector", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"file":"/var/log/pods/x","kubernetes":{"container_name":"%s","pod_name":"%s","pod_namespace":"%s","pod_labels":{"a":"b"}},"message":%s,"source_type":"kubernetes_logs","stream":"stderr","timestamp":"%s"}`, l.container, l.pod, l.ns, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"fluent-bit stdout", each(func(l wrappedLine) string {
		return fmt.Sprintf(`[0] kube.var.log.containers.%s_%s_%s-%s.log: [[%d.%09d, {}], {"log"=>%s, "stream"=>"stderr"}]`, l.pod, l.ns, l.container, strings.Repeat("ab", 32), l.at.Unix(), l.at.Nanosecond(), quoteJSON(l.text))
	}), false, 0},
	{"journalctl -o export", each(func(l wrappedLine) string {
		return fmt.Sprintf("__CURSOR=s=1\n__REALTIME_TIMESTAMP=%d\n_HOSTNAME=n1\nPRIORITY=6\nSYSLOG_IDENTIFIER=kubelet\nMESSAGE=%s\n", l.at.UnixMicro(), l.text)
	}), true, 0},
}

// sourcesOf returns the logs that the forms wrap: recorded incidents of several pods, and JSON.
func sourcesOf(t *testing.T) map[string][]wrappedLine {
	t.Helper()
	out := map[string][]wrappedLine{}
	for _, incident := range []string{"autoscaler-conflict", "capi-aggregate"} {
		for _, f := range podFiles(t, filepath.Join(incidents, incident)) {
			for line := range strings.Lines(string(f.text)) {
				head, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " F ")
				at, err := time.Parse(time.RFC3339Nano, head[:30])
				require.NoError(t, err)
				out[incident] = append(out[incident], wrappedLine{f.ns, f.pod, f.container, at, text})
			}
		}
		slices.SortStableFunc(out[incident], func(a, b wrappedLine) int { return a.at.Compare(b.at) })
	}
	start := time.Date(2026, 4, 21, 10, 0, 0, 123456789, time.UTC)
	for i, msg := range []string{
		`Failed to release lock: Put \"https://10.0.0.1:6443/apis\": context deadline exceeded`,
		"error retrieving resource lock kube-system/kube-controller-manager: timed out",
		"failed to renew lease kube-system/kube-controller-manager: timed out waiting for the condition", "leaderelection lost",
	} {
		at := start.Add(time.Duration(i) * time.Second)
		out["json"] = append(out["json"], wrappedLine{
			"kube-system", "kube-controller-manager-cp-1", "kube-controller-manager", at,
			fmt.Sprintf(`{"ts":%d.%03d,"caller":"leaderelection.go:285","level":"error","logger":"lease","msg":"%s","v":0}`, at.UnixMilli()/1000, at.UnixMilli()%1000, msg),
		})
	}
	return out
}

type told struct {
	alert string
	fired time.Time
}

// toldOf scans a file or a folder. It returns the alerts with their times, and the lines of each pod.
func toldOf(t *testing.T, target replay.Target, path string, labels matcher.Labels) ([]told, map[string]int64, *Account, error) {
	t.Helper()
	in, account, err := Collect([]string{path}, Options{Labels: labels, PathLabels: kubelet.PathLabels, Unpack: t.TempDir()})
	if err != nil {
		return nil, nil, account, err
	}
	report, err := replay.Scan(target.Set, target.Program, in, replay.ScanOptions{Lenient: true, Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)})
	account.Count(report.Outcomes)
	var out []told
	for _, a := range report.Alerts {
		out = append(out, told{a.Episode.Alert, a.FiredAt})
	}
	lines := map[string]int64{}
	for i, o := range report.Outcomes {
		if l := in[i].StreamLabels(); l["pod"] != "" {
			lines[l["pod"]] += o.Lines
		}
	}
	return out, lines, account, err
}

// worksAs returns how a form differs from the bare log, "" if it does not.
func worksAs(t *testing.T, target replay.Target, f form, name string, lines []wrappedLine) string {
	t.Helper()
	dir := t.TempDir()
	if f.unplaced { // one pod
		failing := map[string]string{"autoscaler-conflict": "kube-system", "capi-aggregate": "capi-system", "json": "kube-system"}[name]
		lines = slices.DeleteFunc(slices.Clone(lines), func(l wrappedLine) bool { return l.ns != failing })
	}
	logs := map[string]string{}
	for _, l := range lines {
		logs[filepath.Join(dir, "bare", "pods", l.ns+"_"+l.pod+"_1b8f4d5e-3a56-4bde-8a8c-d5ab3d4d2b91", l.container, "0.log")] += l.rfc() + " stderr F " + l.text + "\n"
	}
	for path, text := range logs {
		write(t, path, text)
	}
	want, wantLines, _, err := toldOf(t, target, filepath.Join(dir, "bare"), nil)
	require.NoError(t, err)
	require.NotEmpty(t, want, name)
	labels := matcher.Labels{}
	if f.unplaced {
		labels = matcher.Labels{"namespace": lines[0].ns, "pod": lines[0].pod, "container": lines[0].container}
	}
	got, gotLines, account, err := toldOf(t, target, write(t, filepath.Join(dir, "wrapped.log"), f.wrap(lines)), labels)
	if err != nil {
		return err.Error()
	}
	same := slices.EqualFunc(want, got, func(a, b told) bool { return a.alert == b.alert && a.fired.Sub(b.fired).Abs() < 2*time.Second })
	if f.around == 0 && !maps.Equal(wantLines, gotLines) || !same {
		return fmt.Sprintf("want %v %v\ngot  %v %v", want, wantLines, got, gotLines)
	}
	if d := account.Doubts(); f.around == 0 && len(d) > 0 {
		return fmt.Sprintf("doubts: %v", d)
	}
	return ""
}

func testForms(t *testing.T, forms []form) {
	target, err := shipped()
	require.NoError(t, err)
	all := sourcesOf(t)
	failed := map[string]bool{}
	for _, f := range forms {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if problem := worksAs(t, target, f, name, all[name]); problem != "" {
				failed[f.name] = true
				t.Errorf("%s of %s: %s\n%.300s", f.name, name, problem, f.wrap(all[name]))
			}
		}
	}
	t.Logf("%d of %d forms work", len(forms)-len(failed), len(forms))
}

func TestForms(t *testing.T) { testForms(t, forms) }

// heldOut are envelopes that were written after the layer, before anybody looked whether it
// reads them.
var heldOut = []form{
	{"stern --template", each(func(l wrappedLine) string { return l.ns + "/" + l.pod + "/" + l.container + ": " + l.text }), false, 0},
	{"stern -o extjson", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"pod": "%s", "container": "%s", "namespace": "%s", "log": %s}`, l.pod, l.container, l.ns, quoteJSON(l.text))
	}), false, 0},
	{"podman logs --names -t", each(func(l wrappedLine) string { return l.at.Format("2006-01-02T15:04:05+00:00") + " manager " + l.text }), true, 0},
	{"nerdctl compose", each(func(l wrappedLine) string { return "manager |" + l.text }), true, 0},
	{"kubectl in a mail", each(func(l wrappedLine) string { return ">> " + l.rfc() + " " + l.text }), true, 0},
	{"chat", func(lines []wrappedLine) string {
		return "alice  10:15 AM\nany idea what this is?\n```\n" + bareText(lines) + "```\n"
	}, true, 4},
	{"grep -n", numbered("%d:%s"), true, 0},
	{"grep over pod logs", each(func(l wrappedLine) string {
		return fmt.Sprintf("/var/log/pods/%s_%s_1b8f4d5e-3a56-4bde-8a8c-d5ab3d4d2b91/%s/0.log:%s stderr F %s", l.ns, l.pod, l.container, l.rfc(), l.text)
	}), false, 0},
	{"journalctl short-iso", each(func(l wrappedLine) string {
		return l.at.Format("2006-01-02T15:04:05+0000") + " node-7 kube-controller-manager[911]: " + l.text
	}), true, 0},
	{"journalctl short-full", each(func(l wrappedLine) string {
		return l.at.Format("Mon 2006-01-02 15:04:05 UTC") + " node-7 kubelet[911]: " + l.text
	}), true, 0},
	{"journalctl verbose", each(func(l wrappedLine) string {
		return l.at.Format("Mon 2006-01-02 15:04:05.000000 UTC") + " [s=ab;i=1;b=cd]\n    PRIORITY=6\n    _HOSTNAME=n\n    SYSLOG_IDENTIFIER=kubelet\n    MESSAGE=" + l.text
	}), true, 0},
	{"syslog 3164 with a priority", each(func(l wrappedLine) string {
		return "<30>" + l.at.Format("Jan _2 15:04:05") + " n1 kubelet[1]: " + l.text
	}), true, 0},
	{"syslog 5424 with data", each(func(l wrappedLine) string {
		return fmt.Sprintf(`<14>1 %s n1 app 1 ID47 [kubernetes@47450 namespace_name="%s" pod_name="%s" container_name="%s"] %s`, l.rfc(), l.ns, l.pod, l.container, l.text)
	}), false, 0},
	{"OpenSearch export", listed("", "\n", "\n", func(l wrappedLine) string {
		return fmt.Sprintf(`{"_index":"x","_source":{"kubernetes":{"container_name":"%s","namespace_name":"%s","pod_name":"%s","annotations":{"a":"b"}},"log":%s,"@timestamp":"%s","stream":"stdout"},"sort":[1]}`, l.container, l.ns, l.pod, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"Kibana CSV", func(lines []wrappedLine) string {
		return `"@timestamp","kubernetes.namespace","kubernetes.pod.name","kubernetes.container.name",message` + "\n" + each(func(l wrappedLine) string {
			return fmt.Sprintf(`"%s","%s","%s","%s","%s"`, l.at.Format("Jan 2, 2006 @ 15:04:05.000"), l.ns, l.pod, l.container, strings.ReplaceAll(l.text, `"`, `""`))
		})(lines)
	}, false, 0},
	{"TSV", func(lines []wrappedLine) string {
		return "time\tnamespace\tpod\tcontainer\tline\n" + each(func(l wrappedLine) string {
			return strings.Join([]string{l.rfc(), l.ns, l.pod, l.container, l.text}, "\t")
		})(lines)
	}, false, 0},
	{"Splunk CSV", func(lines []wrappedLine) string {
		return "_time,source,_raw\n" + newest(each(func(l wrappedLine) string {
			return fmt.Sprintf(`"%s","/var/log/containers/%s_%s_%s-%s.log","%s"`, l.at.Format("2006-01-02T15:04:05.000+0000"), l.pod, l.ns, l.container, strings.Repeat("ab", 32), strings.ReplaceAll(l.text, `"`, `""`))
		}))(lines)
	}, false, 0},
	{"HEC", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"time":%d.%03d,"host":"n","source":"x","sourcetype":"kube","event":%s,"fields":{"pod":"%s","namespace":"%s","container_name":"%s"}}`, l.at.Unix(), l.at.Nanosecond()/1e6, quoteJSON(l.text), l.pod, l.ns, l.container)
	}), false, 0},
	{"CloudWatch Insights", listed(`{"results":[`, ",", `],"status":"Complete"}`, func(l wrappedLine) string {
		return fmt.Sprintf(`[{"field":"@timestamp","value":"%s"},{"field":"@message","value":%s},{"field":"kubernetes.pod_name","value":"%s"},{"field":"kubernetes.namespace_name","value":"%s"},{"field":"kubernetes.container_name","value":"%s"},{"field":"@ptr","value":"Cn=="}]`, l.at.Format("2006-01-02 15:04:05.000"), quoteJSON(l.text), l.pod, l.ns, l.container)
	}), false, 0},
	{"Azure lines", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"Computer":"aks-1","ContainerId":"c0ffee","ContainerName":"%s","PodName":"%s","PodNamespace":"%s","LogMessage":%s,"LogSource":"stderr","LogLevel":"info","TimeGenerated":"%s"}`, l.container, l.pod, l.ns, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"OTLP collector, pretty", func(lines []wrappedLine) string {
		return listed(`{"resourceLogs":[`, ",", "]}", func(l wrappedLine) string {
			return fmt.Sprintf(`{"scopeLogs":[{"logRecords":[{"body":{"stringValue":%s},"timeUnixNano":"%d","attributes":[{"key":"time","value":{"stringValue":"%s"}}]}]}],"resource":{"attributes":[{"key":"k8s.container.name","value":{"stringValue":"%s"}},{"key":"k8s.pod.name","value":{"stringValue":"%s"}},{"key":"k8s.namespace.name","value":{"stringValue":"%s"}}]}}`, quoteJSON(l.text), l.at.UnixNano(), l.rfc(), l.container, l.pod, l.ns)
		})(lines)
	}, false, 0},
	{"fluentd", each(func(l wrappedLine) string {
		return fmt.Sprintf("%s kubernetes.var.log.containers.%s_%s_%s-%s.log: {\"stream\":\"stderr\",\"logtag\":\"F\",\"message\":%s}", l.at.Format("2006-01-02 15:04:05.000000000 +0000"), l.pod, l.ns, l.container, strings.Repeat("ab", 32), quoteJSON(l.text))
	}), false, 0},
	{"VictoriaLogs", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"_time":"%s","_stream_id":"0","_stream":"{namespace=\"%s\",pod=\"%s\"}","_msg":%s,"namespace":"%s","pod":"%s","container":"%s"}`, l.rfc(), l.ns, l.pod, quoteJSON(l.text), l.ns, l.pod, l.container)
	}), false, 0},
	{"GELF", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"version":"1.1","host":"n","short_message":%s,"timestamp":%d.%03d,"level":6,"_pod_name":"%s","_namespace":"%s","_container_name":"%s"}`, quoteJSON(l.text), l.at.Unix(), l.at.Nanosecond()/1e6, l.pod, l.ns, l.container)
	}), false, 0},
	{"own shipper", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"meta":{"k8s":{"ns":"%s","pod":"%s","ctr":"%s"}},"payload":{"ts_ns":%d,"raw_line":%s}}`, l.ns, l.pod, l.container, l.at.UnixNano(), quoteJSON(l.text))
	}), false, 0},
	{"Jenkins", each(func(l wrappedLine) string { return "[" + l.at.Format("2006-01-02T15:04:05.000Z") + "] " + l.text }), true, 0},
	{"GitHub Actions", each(func(l wrappedLine) string { return l.at.Format("2006-01-02T15:04:05.0000000Z") + " " + l.text }), true, 0},
	{"k9s box", each(func(l wrappedLine) string { return "\u2502 " + l.text }), true, 0},
	{"diff", each(func(l wrappedLine) string { return "+" + l.text }), true, 0},
	{"numbered quote", func(lines []wrappedLine) string {
		return each(func(l wrappedLine) string { return "> " + l.text })([]wrappedLine{{text: strings.TrimSuffix(strings.ReplaceAll(numbered("%3d  %s")(lines), "\n", "\n> "), "\n> ")}})
	}, true, 0},
	{"UTF-16 big", func(lines []wrappedLine) string { return "\xfe\xff" + utf16Of(bareText(lines), true) }, true, 0},
	{"colours without escape", each(func(l wrappedLine) string { return "^[[1;31m" + l.text + "^[[0m" }), true, 0},
	{"NULs within", func(lines []wrappedLine) string {
		text := bareText(lines)
		k := strings.Index(text, "\n") + 1
		return text[:k] + strings.Repeat("\x00", 3000) + text[k:]
	}, true, 0},
	{"HTML pre", func(lines []wrappedLine) string {
		return "<pre>\n" + each(func(l wrappedLine) string { return html.EscapeString(l.text) })(lines) + "</pre>\n"
	}, true, 2},
	{"moreutils ts", each(func(l wrappedLine) string { return l.at.Format("Jan 02 15:04:05") + " " + l.text }), true, 0},
	{"stern newest first in a list", newest(listed("[", ",\n", "]\n", func(l wrappedLine) string {
		return fmt.Sprintf(`{"container":"%s","line":%s,"pod":"%s","timestamp":"%s","namespace":"%s"}`, l.container, quoteJSON(l.text), l.pod, l.rfc(), l.ns)
	})), false, 0},
}

func TestHeldOutForms(t *testing.T) { testForms(t, heldOut) }

// more are further envelopes, written later in the same way as heldOut.
var more = []form{
	{"one pod, pasted from k9s", each(func(l wrappedLine) string { return l.container + " " + l.text }), true, 0},
	{"promtail, logfmt around", each(func(l wrappedLine) string {
		return fmt.Sprintf(`ts=%s namespace=%s pod=%s container=%s stream=stderr line=%s`, l.rfc(), l.ns, l.pod, l.container, quoteJSON(l.text))
	}), false, 0},
	{"logcli with zone", each(func(l wrappedLine) string {
		return fmt.Sprintf(`%s {container=%q, pod=%q, namespace=%q, job="a/b", filename="/var/log/x"} %s`, l.at.In(time.FixedZone("x", 7200)).Format(time.RFC3339), l.container, l.pod, l.ns, l.text)
	}), false, 0},
	{"Slack", each(func(l wrappedLine) string { return "[10:15 AM] bob: " + l.text }), true, 0},
	{"GitLab CI", each(func(l wrappedLine) string { return l.at.Format("2006-01-02T15:04:05.000000Z") + " 01O " + l.text }), true, 0},
	{"ansible", each(func(l wrappedLine) string { return "node-1 | CHANGED => " + l.text }), true, 0},
	{"kubectl prefix in a quote", each(func(l wrappedLine) string { return "> [pod/" + l.pod + "/" + l.container + "] " + l.text }), false, 0},
	{"Elasticsearch lines, fields flat", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"_source":{"log":%s,"time":"%s"},"fields":{"kubernetes.pod_name.keyword":["%s"]},"kubernetes.pod_name":"%s","kubernetes.namespace_name":"%s","kubernetes.container_name":"%s"}`, quoteJSON(l.text), l.rfc(), l.pod, l.pod, l.ns, l.container)
	}), false, 0},
	{"Humio", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"@timestamp":%d,"@rawstring":%s,"k8s.pod":"%s","k8s.namespace":"%s","k8s.container":"%s"}`, l.at.UnixMilli(), quoteJSON(l.text), l.pod, l.ns, l.container)
	}), false, 0},
	{"New Relic", listed(`[{"common":{"attributes":{"cluster_name":"c"}},"logs":[`, ",", "]}]", func(l wrappedLine) string {
		return fmt.Sprintf(`{"message":%s,"timestamp":%d,"attributes":{"pod_name":"%s","namespace_name":"%s","container_name":"%s"}}`, quoteJSON(l.text), l.at.UnixMilli(), l.pod, l.ns, l.container)
	}), false, 0},
	{"fluentd file", each(func(l wrappedLine) string {
		return fmt.Sprintf("%s\tkube.%s\t{\"log\":%s,\"kubernetes\":{\"container_name\":\"%s\",\"namespace_name\":\"%s\",\"pod_name\":\"%s\"}}", l.at.Format(time.RFC3339), l.pod, quoteJSON(l.text+"\n"), l.container, l.ns, l.pod)
	}), false, 0},
	{"pretty, one after the other", each(func(l wrappedLine) string { return indentJSON(fluentBit(l)) }), false, 0},
	{"semicolons", func(lines []wrappedLine) string {
		return "Zeit;Timestamp;Pod Name;Namespace;Container;Message\n" + each(func(l wrappedLine) string {
			return fmt.Sprintf(`x;%s;%s;%s;%s;"%s"`, l.rfc(), l.pod, l.ns, l.container, strings.ReplaceAll(l.text, `"`, `""`))
		})(lines)
	}, false, 0},
	{"systemd-cat in UTC+2", each(func(l wrappedLine) string {
		return l.at.In(time.FixedZone("x", 7200)).Format("2006-01-02T15:04:05.000000-07:00") + " n1 kubelet[77]: " + l.text
	}), true, 0},
	{"list in a ticket", each(func(l wrappedLine) string { return "  * " + l.text }), true, 0},
	{"tail of several", func(lines []wrappedLine) string {
		var b strings.Builder
		last := ""
		for _, l := range lines {
			path := fmt.Sprintf("/var/log/containers/%s_%s_%s-%s.log", l.pod, l.ns, l.container, strings.Repeat("ab", 32))
			if path != last {
				b.WriteString("\n==> " + path + " <==\n")
			}
			last = path
			b.WriteString(l.rfc() + " stderr F " + l.text + "\n")
		}
		return b.String()
	}, false, 1},
	{"JSON in JSON in JSON", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"logEvents":[{"id":"1","timestamp":%d,"message":%s}],"logGroup":"g","logStream":"s"}`, l.at.UnixMilli(), quoteJSON(fluentBit(wrappedLine{l.ns, l.pod, l.container, l.at, l.rfc() + " stderr F " + l.text})))
	}), false, 0},
	{"journald of conmon", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"%d","CONTAINER_NAME":"k8s_%s_%s_%s_1b8f4d5e_0","CONTAINER_ID":"abcdef","MESSAGE":%s,"SYSLOG_IDENTIFIER":"conmon","_HOSTNAME":"n"}`, l.at.UnixMicro(), l.container, l.pod, l.ns, quoteJSON(l.text))
	}), false, 0},
	{"CR at the end of numbers", numbered("%04d| %s\r"), true, 0},
	{"mail, quoted twice", each(func(l wrappedLine) string { return "> > " + l.text }), true, 0},
}

func TestMoreForms(t *testing.T) { testForms(t, more) }

// latest are further envelopes, written later in the same way as more.
var latest = []form{
	{"Rancher", each(func(l wrappedLine) string { return l.at.Format("Mon, Jan 2 2006 3:04:05 pm ") + l.text }), true, 0},
	{"aws logs tail", each(func(l wrappedLine) string {
		return l.at.Format("2006-01-02T15:04:05.000000-07:00") + " kube-controller-manager-7f6b5e2c8a9d4e1f " + l.text
	}), true, 0},
	{"fly logs", each(func(l wrappedLine) string { return l.at.Format(time.RFC3339) + " app[148e4d2a] fra [info]" + l.text }), true, 0},
	{"journalctl short-monotonic", func(lines []wrappedLine) string {
		return each(func(l wrappedLine) string {
			return fmt.Sprintf("[%12.6f] node-1 k3s[812]: %s", 4321+l.at.Sub(lines[0].at).Seconds(), l.text)
		})(lines)
	}, true, 0},
	{"clock of Jenkins", each(func(l wrappedLine) string { return l.at.Format("15:04:05  ") + l.text }), true, 0},
	{"grep with context", func(lines []wrappedLine) string {
		var b strings.Builder
		for i, l := range lines {
			fmt.Fprintf(&b, "logs/kcm.log%s%s\n", []string{fmt.Sprintf("-%d-", i), fmt.Sprintf(":%d:", i)}[i%2], l.text)
		}
		return b.String()
	}, true, 0},
	{"RFC 5424 with lengths", each(func(l wrappedLine) string {
		line := "<14>1 " + l.rfc() + " n1 kubelet 1 - - " + l.text
		return fmt.Sprintf("%d %s", len(line), line)
	}), true, 0},
	{"after error:", each(func(l wrappedLine) string { return "error: " + l.text }), true, 0},
	{"YAML of gcloud", each(func(l wrappedLine) string {
		return fmt.Sprintf("---\ninsertId: a\nreceiveTimestamp: '2031-01-01T00:00:00Z'\nresource:\n  labels:\n    container_name: %s\n    namespace_name: %s\n    pod_name: %s\n  type: k8s_container\ntextPayload: %s\ntimestamp: '%s'",
			l.container, l.ns, l.pod, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"HTML page", func(lines []wrappedLine) string {
		return "<html><body><pre class=\"log\">" + each(func(l wrappedLine) string {
			return "<span style=\"color:red\">" + html.EscapeString(l.text) + "</span>"
		})(lines) + "</pre></body></html>\n"
	}, true, 1},
	{"HTML table", func(lines []wrappedLine) string {
		return "<table><tr><th>Time</th><th>Namespace</th><th>Pod</th><th>Container</th><th>Message</th></tr>\n" + each(func(l wrappedLine) string {
			return fmt.Sprintf("<tr><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>", l.rfc(), l.ns, l.pod, l.container, html.EscapeString(l.text))
		})(lines) + "</table>\n"
	}, false, 1},
	{"values of Elasticsearch", each(func(l wrappedLine) string {
		return fmt.Sprintf(`{"_id":"1","fields":{"@timestamp":["%s"],"message":[%s],"kubernetes.pod.name":["%s"],"kubernetes.namespace":["%s"],"kubernetes.container.name":["%s"]}}`, l.rfc(), quoteJSON(l.text), l.pod, l.ns, l.container)
	}), false, 0},
	{"list of strings in a log", listed("ok: [node-1] => {\n    \"lines\": [\n        ", ",\n        ", "\n    ]\n}\n", func(l wrappedLine) string { return quoteJSON(l.text) }), true, 4},
	{"kubetail below its list of pods", func(lines []wrappedLine) string {
		return "Will tail 2 logs...\n\x1b[36mweb-0 web\x1b[0m\n\x1b[33mweb-1 web\x1b[0m\n" + each(func(l wrappedLine) string {
			return "\x1b[36m[" + l.pod + " " + l.container + "]\x1b[0m " + l.rfc() + " " + l.text
		})(lines)
	}, false, 3},
	{"logcli, labels at the head", func(lines []wrappedLine) string {
		return fmt.Sprintf("2026/04/21 11:00:00 http://loki:3100/loki/api/v1/query_range?direction=BACKWARD&limit=30\n2026/04/21 11:00:00 Common labels: {container=%q, namespace=%q, pod=%q}\n", lines[0].container, lines[0].ns, lines[0].pod) +
			newest(each(func(l wrappedLine) string { return l.at.Format(time.RFC3339) + ` {stream="stderr"}   ` + l.text }))(lines)
	}, true, 1},
	{"Grafana text, labels at the head", func(lines []wrappedLine) string {
		return fmt.Sprintf("Common labels: {\"container\":%q,\"namespace\":%q,\"pod\":%q}\nLine limit: \"1000\"\n\n\n", lines[0].container, lines[0].ns, lines[0].pod) +
			newest(each(func(l wrappedLine) string {
				return fmt.Sprintf("%d\t%s\t%s", l.at.UnixMilli(), l.at.Format("2006-01-02T15:04:05.000Z"), l.text)
			}))(lines)
	}, true, 3},
	{"logfmt around, the path first", each(func(l wrappedLine) string {
		return fmt.Sprintf("file=/var/log/pods/x kubernetes.container_name=%s kubernetes.pod_name=%s kubernetes.pod_namespace=%s message=%s stream=stderr timestamp=%s", l.container, l.pod, l.ns, quoteJSON(l.text), l.rfc())
	}), false, 0},
	{"OTel debug exporter", func(lines []wrappedLine) string {
		return "2026-04-21T09:00:00.000Z\tinfo\tLogs\t{\"otelcol.component.id\": \"debug\", \"log records\": 4}\n" + each(func(l wrappedLine) string {
			return fmt.Sprintf("2026-04-21T09:00:00.000Z\tinfo\tResourceLog #0\nResource SchemaURL: \nResource attributes:\n     -> k8s.namespace.name: Str(%s)\n     -> k8s.pod.name: Str(%s)\nScopeLogs #0\nScopeLogs SchemaURL: \nInstrumentationScope  \nLogRecord #0\n"+
				"ObservedTimestamp: 2031-01-01 00:00:00 +0000 UTC\nTimestamp: %s\nSeverityText: \nBody: Str(%s)\nAttributes:\n     -> k8s.container.name: Str(%s)\nTrace ID: \nFlags: 0", l.ns, l.pod, l.at.UTC(), l.text, l.container)
		})(lines) + "\t{\"otelcol.component.id\": \"debug\"}\n"
	}, false, 3},
	{"GitLab, with sections", func(lines []wrappedLine) string {
		stamp := lines[0].at.Format("2006-01-02T15:04:05.000000Z")
		return stamp + " 00O \x1b[0Ksection_start:1776765600:step_script\r\x1b[0K\x1b[36;1mExecuting\x1b[0;m\n" + stamp + " 01O $ kubectl logs x\n" + each(func(l wrappedLine) string {
			return l.at.Format("2006-01-02T15:04:05.000000Z") + " 01O " + l.text
		})(lines) + stamp + " 00O section_end:1776765601:step_script\r\x1b[0K\n"
	}, true, 3},
}

func TestLatestForms(t *testing.T) { testForms(t, latest) }

// A form that is not read is doubted, so that the commands refuse it.
func TestDoubtedForms(t *testing.T) {
	target, err := shipped()
	require.NoError(t, err)
	for name, wrap := range map[string]func([]wrappedLine) string{
		"base64":  each(func(l wrappedLine) string { return base64.StdEncoding.EncodeToString([]byte(l.text)) }),
		"XML":     each(func(l wrappedLine) string { return "<row><cell>" + html.EscapeString(l.text) + "</cell></row>" }),
		"wrapped": each(func(l wrappedLine) string { return strings.ReplaceAll(l.text, " ", "\n") }),
	} {
		lines := sourcesOf(t)["autoscaler-conflict"]
		got, _, account, err := toldOf(t, target, write(t, filepath.Join(t.TempDir(), "x"), wrap(lines)), nil)
		require.NoError(t, err)
		require.Empty(t, got, name)
		require.NotEmpty(t, account.Doubts(), name)
	}
}

// Lines in other lines, elements or tables that are not taken out are doubted, so that nothing ends in silence.
func TestHiddenLines(t *testing.T) {
	target, err := shipped()
	require.NoError(t, err)
	for name, wrap := range map[string]func([]wrappedLine) string{
		"columns of az": func(lines []wrappedLine) string {
			width := len("LogMessage")
			for _, l := range lines {
				width = max(width, len(l.text))
			}
			row := func(container, text, pod, ns, at string) string {
				return strings.TrimRight(fmt.Sprintf("%-40s  %-*s  %-60s  %-20s  %s", container, width, text, pod, ns, at), " ") + "\n"
			}
			return row("ContainerName", "LogMessage", "PodName", "PodNamespace", "TimeGenerated") + row("-----", "-----", "----", "----", "----") +
				strings.TrimSuffix(each(func(l wrappedLine) string {
					return strings.TrimSuffix(row(l.container, l.text, l.pod, l.ns, l.rfc()), "\n")
				})(lines), "\n") + "\n"
		},
		"XML of log4j": each(func(l wrappedLine) string {
			return fmt.Sprintf("<log4j:event logger=\"x\" timestamp=\"%d\" level=\"ERROR\">\n<log4j:message><![CDATA[%s]]></log4j:message>\n</log4j:event>", l.at.UnixMilli(), l.text)
		}),
		"XML of Windows": func(lines []wrappedLine) string {
			return "<Events>\n" + each(func(l wrappedLine) string {
				return fmt.Sprintf(`<Event xmlns="http://x"><System><TimeCreated SystemTime="%s"/><Computer>w</Computer></System><EventData><Data>%s</Data></EventData></Event>`, l.rfc(), html.EscapeString(l.text))
			})(lines) + "</Events>\n"
		},
		"Markdown table": func(lines []wrappedLine) string {
			return "| time | namespace | pod | container | message |\n|---|---|---|---|---|\n" + each(func(l wrappedLine) string {
				return fmt.Sprintf("| %s | %s | %s | %s | %s |", l.rfc(), l.ns, l.pod, l.container, l.text)
			})(lines)
		},
		"cut by a terminal": func(lines []wrappedLine) string {
			var b strings.Builder
			for _, l := range lines {
				for text := l.text; text != ""; {
					n := min(100, len(text))
					b.WriteString(text[:n] + "\n")
					text = text[n:]
				}
			}
			return b.String()
		},
		"Jira table below a heading": func(lines []wrappedLine) string {
			return "h3. Logs\n||Time||Namespace||Pod||Container||Message||\n" + each(func(l wrappedLine) string {
				return fmt.Sprintf("|%s|%s|%s|%s|{{%s}}|", l.at.Format("2006-01-02 15:04:05"), l.ns, l.pod, l.container, l.text)
			})(lines)
		},
		"base64 behind a pod": each(func(l wrappedLine) string { return l.pod + " " + base64.StdEncoding.EncodeToString([]byte(l.text)) }),
		"SQL": each(func(l wrappedLine) string {
			return fmt.Sprintf("INSERT INTO logs VALUES ('%s','%s','%s');", l.rfc(), l.pod, l.text)
		}),
		"body": each(func(l wrappedLine) string { return "node-1 INFO shipper forwarded id=1 body=" + l.text }),
		"logfmt": each(func(l wrappedLine) string {
			return "ts=" + l.rfc() + " component=tail file=/x msg=" + quoteJSON(l.text)
		}),
	} {
		for kind, lines := range sourcesOf(t) {
			got, _, account, err := toldOf(t, target, write(t, filepath.Join(t.TempDir(), "x"), wrap(lines)), nil)
			require.NoError(t, err)
			require.True(t, len(got) > 0 || len(account.Doubts()) > 0, "%s of %s", name, kind)
		}
	}
}
