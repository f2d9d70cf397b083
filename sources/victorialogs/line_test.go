package victorialogs

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/sources/internal/rangeread"
)

func recordOf(message string, fields map[string]string) *record {
	r := &record{at: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), message: []byte(message)}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		r.fields = append(r.fields, rangeread.Pair{Name: []byte(k), Value: []byte(fields[k])})
	}
	return r
}

func TestLine(t *testing.T) {
	f := func(fields []string, message string, of map[string]string, want string, left ...string) {
		t.Helper()
		r := recordOf(message, of)
		require.Equal(t, want, string(lineWriter{fields: fields, labels: map[string]string{"kube.ns": "namespace"}}.line(r)))
		var names []string
		for _, p := range r.fields {
			names = append(names, string(p.Name))
		}
		require.Equal(t, left, names)
	}
	of := map[string]string{"log.error": "a <b>", "log.Cluster.name": "c", "log.Cluster.namespace": "n", "log.n": "5", "log.list": `["x"]`, "log.ts": "1.5", "file": "x", "kube.ns": "y"}
	f(nil, "text", of, "text", "file", "kube.ns", "log.Cluster.name", "log.Cluster.namespace", "log.error", "log.list", "log.n", "log.ts")
	f([]string{"log.*"}, "text", of, `{"ts":1.5,"msg":"text","Cluster":{"name":"c","namespace":"n"},"list":["x"],"n":5,"error":"a <b>"}`, "file", "kube.ns")
	f([]string{"log.*"}, `{"raw":1}`, of, `{"raw":1}`, "file", "kube.ns", "log.Cluster.name", "log.Cluster.namespace", "log.error", "log.list", "log.n", "log.ts")
	f([]string{"!file", "*"}, "text", map[string]string{"file": "x", "kube.ns": "y"}, "text", "file", "kube.ns")
	f([]string{"*"}, "missing _msg field; see https://docs", map[string]string{"msg": "m", "a": "b"}, `{"msg":"m","a":"b"}`)
	klog := map[string]string{"level": "ERROR", "thread_id": "1", "source_line": "a.go:7"}
	f([]string{"*"}, "plain text", klog, `E0102 03:04:05.000006       1 a.go:7] plain text`)
	klog["err"], klog["controller"] = `x "y"`, "machine"
	f([]string{"*"}, "Failed", klog, `E0102 03:04:05.000006       1 a.go:7] "Failed" err="x \"y\"" controller="machine"`)
}

var klogForm = regexp.MustCompile(`^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6}\s+(\d+) ([^\]]+)\] (.+)$`)

// parse parses a line as vlagent does.
func parse(line string) (message string, fields map[string]string, ok bool) {
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if d.Decode(&object) == nil {
		fields = map[string]string{}
		flatten("", object, fields)
		message = fields["msg"]
		delete(fields, "msg")
		return message, fields, message != ""
	}
	m := klogForm.FindStringSubmatch(line)
	if m == nil {
		return "", nil, false
	}
	level := map[string]string{"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}[m[1]]
	fields = map[string]string{"level": level, "thread_id": m[2], "source_line": m[3]}
	rest := m[4]
	if rest[0] != '"' {
		return rest, fields, true
	}
	name := ""
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", nil, false
		}
		text, _ := strconv.Unquote(quoted)
		if name == "" {
			message = text
		} else {
			fields[name] = text
		}
		name, rest, _ = strings.Cut(strings.TrimPrefix(rest[len(quoted):], " "), "=")
	}
	return message, fields, true
}

func flatten(name string, value any, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for k, inner := range v {
			flatten(strings.TrimPrefix(name+"."+k, "."), inner, out)
		}
	case string:
		out[name] = v
	case nil:
	default:
		text, _ := json.Marshal(v)
		out[name] = string(text)
	}
}
