package envelope

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

var now = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// decode returns the texts of the lines in an input, and their places.
func decode(input string, size int) (texts []string, places []Place) {
	d := New(now, func(l Line) {
		texts = append(texts, string(l.Text))
		places = append(places, *l.Place)
	})
	for len(input) > 0 {
		n := min(size, len(input))
		d.Write([]byte(input[:n]))
		input = input[n:]
	}
	d.Close()
	return texts, places
}

// Every example line of the shipped packs is what it was behind the time that kubectl writes,
// together with the others of its rule and alone.
func TestTimestampsOfExamples(t *testing.T) {
	set, err := rules.Load(rules.Shipped())
	require.NoError(t, err)
	seen := 0
	check := func(lines []string) {
		var b strings.Builder
		for i, l := range lines {
			fmt.Fprintf(&b, "2026-04-21T10:00:%02d.123456789Z %s\n", i%60, l)
		}
		got, _ := decode(b.String(), 1<<20)
		require.Len(t, got, len(lines))
		for i, l := range lines {
			if l != got[i] { // a few examples have an envelope themselves
				alone, _ := decode(l+"\n", 1<<20)
				require.Equal(t, alone, got[i:i+1])
				seen--
			}
		}
		seen += len(lines)
	}
	for _, r := range set.Rules {
		var lines []string
		for _, test := range r.Tests {
			for _, in := range test.Input {
				if l := strings.TrimSpace(in.Text); l != "" && !strings.ContainsAny(l, "\n\x1b") {
					lines = append(lines, l)
					check([]string{l})
				}
			}
		}
		if len(lines) > 0 {
			check(lines)
		}
	}
	require.Greater(t, seen, 3000)
}

// What a program wrote itself is no envelope, though it names pods and times.
func TestOwnLines(t *testing.T) {
	for _, lines := range []string{
		`{"level":"error","ts":"2026-04-21T10:00:00Z","msg":"Reconciler error","controller":"pod","Pod":{"name":"x","namespace":"y"},"namespace":"y","name":"x","error":"boom"}`,
		`{"ts":1580306777.04728,"caller":"status_manager.go:1","msg":"Pod status updated","v":0,"pod":{"name":"kube-dns","namespace":"kube-system"},"status":"ready"}`,
		`{"time":"2026-04-21T10:00:00Z","level":"WARN","msg":"evicting","pod":"web-0","namespace":"shop"}`,
		`{"time":"2026-04-21T10:00:00Z","level":"WARN","message":"evicting","pod":{"name":"web-0","namespace":"shop"}}`,
		`{"time":"2026-04-21T10:00:00Z","message":"evicting","Pod":{"name":"web-0","namespace":"shop"},"namespace":"shop","name":"web-0"}`,
		`{"time":"2026-04-21T10:00:00Z","message":"no endpoints","namespace":"shop","name":"web"}`,
		`{"time":"2026-04-21T10:00:00Z","message":"cordoned","node":"worker-1"}`,
		// Longhorn's instance manager; the names are processes and not pods
		"[longhorn-instance-manager] time=\"2026-03-02T09:10:11Z\" level=info msg=\"Starting\"\n" +
			"[data-e-0] time=\"2026-03-02T09:10:11Z\" level=info msg=\"Opened volume\"\n" +
			"[pvc-0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4a-r-1a2b3c4d] time=\"2026-03-02T09:10:11Z\" level=info msg=\"Opened volume\"",
		`{"level":"info","ts":1763632800.1,"logger":"setup","message":"starting","container":"manager"}`,
		`{"level":"info","logger":"webhooks.server","v":0,"time":"2026-04-21T10:00:00Z","message":"2026/04/21 10:00:00 http: panic serving 10.42.0.7:51514: boom"}`,
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","responseStatus":{"message":"Unauthorized","code":401},"objectRef":{"namespace":"x","name":"y"}}`,
		"2026-04-21T10:00:00.123Z\tERROR\tcontroller\tReconciler error\t{\"pod\": \"a/b\"}\n2026-04-21T10:00:01.123Z\tINFO\tsetup\tstarting",
		"2026-04-21 10:00:00.123456 I | etcdserver: apply took too long\n2026-04-21 10:00:01.123456 W | etcdserver: x",
		"time=\"2026-04-21T10:00:00Z\" level=error msg=\"stderr: E0421 10:00:00.000000 1 a.go:1] failed\"",
		"E0421 10:00:00.000000       1 a.go:1] failed <\n\tone\n\ttwo\n >\npanic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:1 +0x1",
		"failed to start web-5d9f7c8b4-tq2wz: no such image",
		strings.Repeat("E0421 10:00:00.000000       1 a.go:1] failed\n", 5) + `Common labels: {namespace="x", pod="y-0"}`,
	} {
		got, places := decode(lines+"\n", 1<<20)
		require.Equal(t, strings.Split(lines, "\n"), got)
		for _, p := range places {
			require.Zero(t, p, lines)
		}
	}
}

// Lines that a job printed later have the times that they state, and else those of the lines before.
func TestCopiedLines(t *testing.T) {
	for outer, want := range map[string][]string{
		"2026-04-21T11:00:00.%d000000Z ": {"10:00:00.5", "10:01:00.5", "10:02:00.5", "", "10:03:00.5"},
		"2026-04-21T10:0%d:01.0000000Z ": {"10:00:01", "10:01:01", "10:02:01", "10:03:01", "10:04:01"},
	} {
		var got []string
		d := New(now, func(l Line) {
			if l.Time.IsZero() {
				got = append(got, "")
			} else {
				got = append(got, l.Time.Format("15:04:05.999"))
			}
		})
		var b strings.Builder
		for i, line := range []string{"E0421 10:00:00.500000       1 a.go:1] a", "E0421 10:01:00.500000       1 a.go:1] b", "E0421 10:02:00.500000       1 a.go:1] c", "panic: x", "E0421 10:03:00.500000       1 a.go:1] d"} {
			fmt.Fprintf(&b, outer+"%s\n", i, line)
		}
		d.Write([]byte(b.String()))
		d.Close()
		require.Equal(t, want, got)
	}
}

// The envelope may change within an input.
func TestShapeChanges(t *testing.T) {
	const klog = "E0421 10:00:00.000000       1 a.go:1] failed"
	want := []string{}
	var b strings.Builder
	for _, wrap := range []string{"%s\n", "capi-5d9f7c8b4-tq2wz manager %s\n", "> %s\n", `{"log":"%s","kubernetes":{"pod_name":"a-0","namespace_name":"b"}}` + "\n", "%s\n"} {
		for range 20 {
			fmt.Fprintf(&b, wrap, klog)
			want = append(want, klog)
		}
	}
	got, _ := decode(b.String(), 1<<20)
	require.Equal(t, want, got)
}

// Whatever the input is, the decoder does not panic, and its result does not depend on the
// blocks in which it arrives, beyond what it looks at to find the envelope. Text in an
// envelope of records is neither lost nor doubled.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"a b\n", "[\n{\"log\":\"x\",\"stream\":\"stdout\"},\n{\"log\":\"y\",\"time\":1763632800}\n]", `{"a":[{"message":"x","time":"2026-01-01T00:00:00Z"},`, "time,message\n1,\"x\ny\"\n",
		"\x1b[1mx\x1b[0m", "> {\"log\":1}", "[0] a: [1.2, {\"log\"=>\"x\"}]", "MESSAGE=x\nPRIORITY=1\n", "\\\"x\\\"", "&quot;x&quot;", "1: x\n2: y\n", "<30>1 - - - - - -\n", `["a","b"]`, "==> /var/log/pods/a_b_c/d/0.log <==\nx\n",
		"ResourceLog #0\n     -> k8s.pod.name: Str(a-0)\nLogRecord #0\nTimestamp: 2026-01-01 00:00:00 +0000 UTC\nBody: Str(x\ny)\n", "Common labels: {pod=\"a-0\"}\nx\n", "a=1 pod=b-0 line=\"x\"\n", "||time||line||\n|1|{{x}}|\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 4<<10 {
			return
		}
		decode(s, 7)
		decode(s, 1<<20)
		lines := strings.Split(strings.ToValidUTF8(s, "?"), "\n")
		var b strings.Builder
		want := []string{}
		for i, l := range lines {
			l = strings.Trim(strings.Map(printable, l), " ")
			if l == "" {
				l = "x"
			}
			fmt.Fprintf(&b, `{"kubernetes":{"pod_name":"p-%d","namespace_name":"n"},"@timestamp":"2026-01-01T00:00:00Z","message":%q}`+"\n", i%3, "E0421 10:00:00.000000       1 a.go:1] "+l)
			want = append(want, "E0421 10:00:00.000000       1 a.go:1] "+l)
		}
		got, _ := decode(b.String(), 1<<20)
		require.Equal(t, want, got)
	})
}

// printable keeps characters that %q and JSON escape in the same way.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '.'
	}
	return r
}

// Lines of a log behind a document of YAML, or of markup that does not end, are lines.
func TestBrokenDocuments(t *testing.T) {
	const klog = "E0421 10:00:00.000000       1 a.go:1] failed: x"
	for _, before := range []string{"---\nmessage: x\nnamespace: a\npod_name: b-0\ncontainer_name: c\n", "<event>\n<message>x\n", "---\nkey: [\n", "{\n\"a\": 1,\n"} {
		got, _ := decode(before+klog+"\n"+klog+"\n", 1<<20)
		require.Equal(t, []string{klog, klog}, got[len(got)-2:], before)
		got, _ = decode(before+klog+"\n"+klog+"\n", 9)
		require.Equal(t, []string{klog, klog}, got[len(got)-2:], before)
	}
}

// Parts of forms that no whole form in ../forms_test.go has.
func TestPartsOfForms(t *testing.T) {
	pod := Place{Namespace: "b", Pod: "a-0"}
	long := strings.Repeat("x", 300)
	list, texts := []string{}, []string{}
	for i := range 8_000 {
		texts = append(texts, fmt.Sprintf("%d %s", i, long))
		list = append(list, fmt.Sprintf(`["17636328%08d000","%s"]`, i, texts[i]))
	}
	for _, c := range []struct {
		input string
		place Place
		want  []string
	}{
		{`{"log":"caf\u00e9 \ud83d\ude00 \x41","kubernetes":{"pod_name":"a-0","namespace_name":"b"}}` + "\n", pod, []string{"café 😀 A"}},
		{`{"line":"x","timestamp":"2026-04-21T10:00:00Z","labels":"{namespace=\"b\", pod=\"a-0\"}"}` + "\n", pod, []string{"x"}},
		{`{"log":"x\n","stream":"stdout","time":"2026-04-21T10:00:00Z"}` + "\n", Place{}, []string{`{"log":"x\n","stream":"stdout","time":"2026-04-21T10:00:00Z"}`}},
		{"PRIORITY=6\nMESSAGE=one\n        two\n_TRANSPORT=kernel\n\n", Place{Transport: "kernel"}, []string{"one", "two"}},
		{"time,namespace,pod,message\n2026-04-21 10:00:00,b,a-0,\"one\ntwo \"\"three\"\"\"\n", pod, []string{"one", `two "three"`}},
		{"ResourceLog #0\n     -> k8s.pod.name: Str(a-0)\n     -> k8s.namespace.name: Str(b)\nLogRecord #0\nBody: Str(one\ntwo)\nLogRecord #1\nBody: Str(three)\n", pod, []string{"one", "two", "three"}},
		{"[0] k8s.log: [1763632800.1, {\"log\"=>\"x\", \"pod_name\"=>\"a-0\", \"namespace_name\"=>\"b\", \"y\"=>nil}]\n", pod, []string{"x"}},
		{`{"status":"success","data":{"result":[{"stream":{"namespace":"b","pod":"a-0"},"values":[` + strings.Join(list, ",") + "]}]}}\n", pod, texts},
	} {
		for _, size := range []int{64 << 10, 1 << 30} {
			got, places := decode(c.input, size)
			require.Equal(t, c.want, got, "%.200s", c.input)
			for _, p := range places {
				require.Equal(t, c.place, p, "%.200s", c.input)
			}
		}
	}
}
