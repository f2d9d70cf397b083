package inputs

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

const podYAML = `apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata: {namespace: ns, name: p-1}
  spec:
    containers: [{name: c, image: "example.com/c:v1.2.3"}]
  status:
    containerStatuses: [{name: c, image: "example.com/c:v1.2.3", restartCount: 7, state: {waiting: {reason: CrashLoopBackOff}}}]
- apiVersion: v1
  kind: Secret
  metadata: {namespace: ns, name: s}
  status: {phase: hunter2}
kind: List
`

const eventJSON = `{
  "apiVersion": "v1", "kind": "EventList",
  "items": [{"metadata": {"namespace": "ns"}, "type": "Warning", "reason": "BackOff", "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p-1"},
    "message": "m", "lastTimestamp": "2026-01-02T03:04:05Z", "count": 2}]
}`

// Documents become lines of Events and objects, and name the images of containers.
func TestObjectsAndEvents(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/logs/ns/p-1/c.log", "one\n")
	write(t, dir+"/yamls/namespaced/ns/v1/pods.yaml", podYAML)
	write(t, dir+"/events.json", eventJSON)
	write(t, dir+"/copy/events.json", eventJSON)
	write(t, dir+"/values.yaml", "a: 1\n")
	write(t, dir+"/crds.yml", "kind: List\nitems:\n- {\n")
	in, account, err := Collect([]string{dir}, Options{Unpack: t.TempDir(), Labels: matcher.Labels{"cluster": "c"}, PathLabels: func(string) (matcher.Labels, bool) { return nil, false }})
	require.NoError(t, err)
	require.Len(t, account.Skipped(), 2)
	require.Equal(t, SkippedFiles{noObjects, []string{dir + "/values.yaml"}}, account.Skipped()[1])
	require.Contains(t, account.Skipped()[0].Problem, "1 of its objects cannot be read: ")
	require.Len(t, in, 3)
	require.Equal(t, "example.com/c:v1.2.3", in[0].StreamLabels()["image"])
	f := func(i int, name string, labels matcher.Labels, want string) {
		t.Helper()
		require.Equal(t, filepath.Clean(dir)+name, in[i].Name)
		require.True(t, in[i].Exact)
		require.Equal(t, labels, in[i].StreamLabels())
		rc, err := in[i].Open()
		require.NoError(t, err)
		text, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		require.Equal(t, want, string(text))
	}
	f(1, "[c events ns]", matcher.Labels{"cluster": "c", "component": "events", "namespace": "ns"},
		`{"log":"msg=\"event\" type=Warning reason=BackOff kind=Pod object=ns/p-1 name=p-1 pod=p-1 uid=\"\" reporter=\"\" count=2 message=m\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}`+"\n")
	f(2, "[c phases ns]", matcher.Labels{"cluster": "c", "component": "phases", "namespace": "ns"},
		`{"log":"msg=\"container is waiting\" reason=CrashLoopBackOff container=c resource=pods kind=Pod object=ns/p-1 name=p-1 pod=p-1 restarts=7 exit=\"\" exit_reason=\"\" since=\"\" age=\"\" message=\"\"\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}`+"\n")
}

// A log is not taken for a document.
func TestLogsAreNoDocuments(t *testing.T) {
	c := &collector{opt: Options{Unpack: t.TempDir()}}
	f := func(name, text string, want bool) {
		t.Helper()
		path := write(t, filepath.Join(t.TempDir(), name), text)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, c.probe(path, info).document, text)
	}
	f("audit.log", `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}`+"\n", false)
	f("x.json", `{"ts":"2026-01-02T03:04:05Z","msg":"items:","kind":"Pod"}`+"\n", false)
	f("app.log", "apiVersion: v1\nkind: Pod\n", false)
	f("x.yaml", "a: 1\n", false)
	f("x.yaml", podYAML, true)
	f("x", eventJSON, true)
	f("raw.json", `{"kind":"PodList","apiVersion":"v1","items":[]}`, true)
}

// However its JSON is laid out, a list is no log.
func TestLayoutsOfLists(t *testing.T) {
	const event = `{"metadata":{"namespace":"shop"},"type":"Warning","reason":"BackOff","involvedObject":{"kind":"Pod","namespace":"shop","name":"p"},"lastTimestamp":"2026-01-02T03:04:05Z"}`
	for _, text := range []string{
		`{"kind":"EventList","apiVersion":"v1","items":[` + event + `]}`,
		`{"kind": "EventList", "apiVersion": "v1", "items": [` + "\n" + event + "\n]}\n",
		`{"apiVersion": "v1", "items": [` + event + `], "kind": "List"}`,
		"{ \"apiVersion\":\"v1\",\n\"kind\":\"EventList\",\n\"items\":[" + event + "]}",
		"\n{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"EventList\",\n\t\"items\": [\n" + event + "]}",
		`{"apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [` + event + `], "kind": "EventList"}`,
	} {
		text = strings.Replace(text, `{"metadata":{"namespace":"shop"},`, `{"apiVersion":"v1","kind":"Event","metadata":{"namespace":"shop"},`, 1)
		dir := t.TempDir()
		write(t, dir+"/events.json", text)
		in, account, err := Collect([]string{dir}, Options{Unpack: t.TempDir(), PathLabels: func(string) (matcher.Labels, bool) { return nil, false }})
		require.NoError(t, err, text)
		require.Len(t, in, 1, text)
		require.Equal(t, "events", in[0].StreamLabels()["component"], text)
		require.Equal(t, asDocuments, account.Files[0].ReadAs, text)
	}
}
