package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

var now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func input(name, text string, labels matcher.Labels) Input {
	return Input{Name: name, Labels: labels, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func pack(t *testing.T, text string) *rules.Set {
	t.Helper()
	d, problems := rules.Parse(rules.File{Name: "test.yaml", Data: []byte("pack: {name: test, version: 0.1.0}\nrules:\n" + text)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{d}, rules.Options{})
	require.Empty(t, problems.Errors())
	return set
}

func find(t *testing.T, set *rules.Set, opt Options, all ...Input) Report {
	t.Helper()
	opt.Now = now
	f, err := New(set, opt)
	require.NoError(t, err)
	for _, in := range all {
		require.NoError(t, f.Read(in))
	}
	return f.Report(1, 0)
}

// summary is a report in short.
func summary(r Report) []string {
	out := []string{}
	for _, p := range r.Patterns {
		text := fmt.Sprintf("%s %d %s", p.Level, p.Count, p.Template)
		if p.Error != "" {
			text += " | " + string(p.Error)
		}
		for _, v := range p.Variants {
			text += fmt.Sprintf(" (%d %s | %s)", v.Count, v.Template, v.Error)
		}
		out = append(out, text)
	}
	return out
}

func TestWhatComplains(t *testing.T) {
	f := func(log string, want ...string) {
		t.Helper()
		got := summary(find(t, nil, Options{}, input("a.log", log, nil)))
		if want == nil {
			want = []string{}
		}
		require.Equal(t, want, got)
	}
	f("")
	f("\n\n\r\n")
	f("I0101 10:00:00.0 1 a.go:1] all is well\n")
	f("E0101 10:00:00.0 1 a.go:1] all is well\n", "error 1 all is well")
	f("I0101 10:00:00.0 1 a.go:1] could not open the valve 7\nI0101 10:00:00.0 1 a.go:1] could not open the valve 8\n", "info 2 could not open the valve <num>")
	// klog JSON has no level; informative lines have a verbosity.
	f(`{"ts":1770884107000.5,"caller":"a.go:1","msg":"the valve"}`+"\n"+`{"ts":1770884107000.5,"caller":"a.go:1","msg":"the other valve","v":2}`, "error 1 the valve")
	// Reports of success are not complaints, and neither are names.
	f("done, no errors\nfailed: 0\ncount error=<nil> done\nlease is not yet expired\n0 errors, 0 failed\nnode error-prone-host-1 joined\n")
	f("errors: 3 of 4\n", "unknown 1 errors: <num> of <num>")
	// Words of CamelCase.
	f("pod is in CrashLoopBackOff again\n", "unknown 1 pod is in CrashLoopBackOff again")
	// A multi-line klog error: the first line is the error, the rest is ignored.
	f("E0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\n\tvalve is stuck\n\tfailed for other reasons\n >\nE0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\n\tvalve is stuck\n >\n",
		"error 2 Sync failed | valve is stuck")
	f("E0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\n", "error 1 Sync failed")
	f("E0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\nE0101 10:00:00.0 1 a.go:1] next\n", "error 1 Sync failed", "error 1 next")
	// A stack trace belongs to its panic.
	f("panic: boom of the valve\n\ngoroutine 1 [running]:\nmain.fail(0xc000, {0x1, 0x2})\n\t/src/failed/main.go:3 +0x1d\ncreated by main.main\nexit status 2 of the valve\n",
		"fatal 1 panic: boom of the valve")
	f("E0302 10:00:00.000000       1 runtime.go:78] Observed a panic: boom of the valve\ngoroutine 1 [running]:\nmain.fail(0x1)\n\t/src/main.go:3 +0x1d\n",
		"error 1 Observed a panic: boom of the valve")
	// Different values form one pattern; different failures form two.
	f("W0101 10:00:00.0 1 a.go:1] volume \"a\" of shop/x is refused by 10.0.0.1:443\nW0101 10:00:00.0 1 a.go:1] volume \"bb-2\" of shop/y is refused by 10.0.0.2:443\nW0101 10:00:00.0 1 a.go:1] volume \"c\" of shop/z is denied by 10.0.0.3:443\n",
		"warning 1 volume \"<name>\" of <obj> is denied by <ip>", "warning 2 volume \"<name>\" of <obj> is refused by <ip>")
	// The same cause in other words is one entry.
	f("E0101 10:00:00.0 1 a.go:1] \"Reconciler error\" err=\"failed to sync: quota of tenant is used up\"\nE0101 10:00:00.0 1 a.go:1] \"Reconciler error\" err=\"failed to sync: quota of tenant is used up\"\nE0101 10:00:00.0 1 b.go:1] cannot scale: quota of tenant is used up\n",
		"error 3 Reconciler error | failed to sync: quota of tenant is used up (1 cannot scale: quota of tenant is used up | )")
	// Partial CRI lines, Docker.
	f("2026-01-01T00:00:00Z stderr P E0101 10:00:00.0 1 a.go:1] the valve is \n2026-01-01T00:00:00Z stderr F stuck\n", "error 1 the valve is stuck")
	f(`{"log":"E0101 10:00:00.0 1 a.go:1] the valve is stuck\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}`, "error 1 the valve is stuck")
	// JSON without spaces is not a function in a stack trace.
	f(`{"level":"info","msg":"start"}`+"\n"+`{"level":"error","msg":"stuck"}`, "error 1 stuck")
	// Arbitrary bytes.
	f("\x00\x00\xff\xfe failed \x80 to read the valve\n", "unknown 1 \xff\xfe failed \x80 to read the valve")
}

// Any part of a rule that hits a line covers it. A rule for another stream does not,
// and neither does one that is off.
func TestCovered(t *testing.T) {
	const log = "valve is stuck\nvalve failed to open\npump failed to stop\nunable to start the fan\n"
	f := func(text string, labels matcher.Labels, lenient bool, covered int64, want ...string) {
		t.Helper()
		var set *rules.Set
		if text != "" {
			set = pack(t, text)
		}
		r := find(t, set, Options{Lenient: lenient}, input("a.log", log, labels))
		require.Equal(t, covered, r.Covered)
		require.EqualValues(t, 4, r.Lines)
		require.ElementsMatch(t, want, summary(r))
	}
	const rule = `- {alert: A, from: '{container="x"}', match: "valve failed", clear: "pump failed", unless: {contains: "the fan", within: 1m}, severity: warning}`
	all := []string{"unknown 1 valve is stuck", "unknown 1 valve failed to open", "unknown 1 pump failed to stop", "unknown 1 unable to start the fan"}
	f("", nil, false, 0, all...)
	f(rule, matcher.Labels{"container": "x"}, false, 3, all[0])
	f(rule, matcher.Labels{"container": "y"}, true, 0, all...)
	f(rule, nil, true, 3, all[0])
	f(rule, nil, false, 0, all...)
	f(strings.Replace(rule, "severity", "enabled: false, severity", 1), nil, true, 0, all...)
	f(strings.Replace(rule, "severity", "enabled: silent, severity", 1), nil, true, 3, all[0])
}

func TestBlockOfCoveredLine(t *testing.T) {
	set := pack(t, `- {alert: A, from: '{container=~".+"}', match: "Sync failed", severity: warning}`)
	const log = "E0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\n\tvalve is stuck\n >\n"
	require.Empty(t, find(t, set, Options{Lenient: true}, input("a", log, nil)).Patterns)
}

func TestSerious(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "E0101 10:00:00.0 1 a.go:1] \"Reconciler error\" err=\"Operation cannot be fulfilled on x \\\"y-%d\\\": the object has been modified; please apply your changes\"\n", i)
		fmt.Fprintf(&b, "I0101 10:00:00.0 1 a.go:1] retrying the fan after %d seconds\n", i)
	}
	b.WriteString("E0101 10:00:00.0 1 a.go:1] write ledger: no space left on device\nF0101 10:00:00.0 1 a.go:1] leaderelection lost\n")
	r := find(t, nil, Options{}, input("a", b.String(), nil))
	require.Equal(t, []string{
		"fatal 1 leaderelection lost",
		"error 1 write ledger: no space left on device",
		"error 2000 Reconciler error | Operation cannot be fulfilled on x \"<name>\": the object has been modified; please apply your changes",
		"info 2000 retrying the fan after <num> seconds",
	}, summary(r))
	require.Equal(t, []string{"level fatal +5.0", "words +2.5", "new in the log of its component +2.0"}, r.Patterns[0].Reasons)
	require.Subset(t, r.Patterns[2].Reasons, []string{"usually passes -1.0", "2000 times +1.8", "all the time -1.0", "so its lines do not count -1.8"})
}

// One component with many complaints does not hide another.
func TestComponents(t *testing.T) {
	var loud strings.Builder
	for _, what := range strings.Fields("ant bee cat dog elk fox gnu hen") {
		loud.WriteString(strings.Repeat("E0101 10:00:00.0 1 a.go:1] cannot feed the "+what+" today\n", 5))
	}
	r := find(t, nil, Options{},
		input("1", loud.String(), matcher.Labels{"namespace": "zoo", "pod": "a", "container": "keeper"}),
		input("2", loud.String(), matcher.Labels{"namespace": "zoo", "pod": "b", "container": "keeper"}),
		input("3", "E0101 10:00:00.0 1 a.go:1] unable to print the tickets\n", matcher.Labels{"namespace": "zoo", "pod": "c", "container": "desk"}))
	require.Equal(t, "error 1 unable to print the tickets", summary(r)[1])
	require.Equal(t, 2, r.Patterns[0].Streams)
}

func TestTimesAndPlaces(t *testing.T) {
	r := find(t, nil, Options{}, input("a.log", "fine\n2026-01-02T03:04:05Z cannot open it\n2026-01-01T00:00:00Z cannot open it\n", nil), input("b.log", "cannot open it\n", nil))
	p := r.Patterns[0]
	require.EqualValues(t, 3, p.Count)
	require.Equal(t, 2, p.Streams)
	require.Equal(t, "2026-01-01T00:00:00Z", p.First.Format(time.RFC3339))
	require.Equal(t, "2026-01-02T03:04:05Z", p.Last.Format(time.RFC3339))
	require.Equal(t, "a.log", p.Input)
	require.EqualValues(t, 2, p.LineNumber)
	p = find(t, nil, Options{}, input("a", "cannot open it\n", nil)).Patterns[0]
	require.Nil(t, p.First)
	require.Nil(t, p.Last)
}

// Secrets appear neither in the example nor in a word of the template.
func TestSecrets(t *testing.T) {
	for _, line := range []string{
		"E0101 10:00:00.0 1 a.go:1] login failed: password=hunterhunter was refused",
		`{"level":"error","msg":"login failed","error":"token: hunterhunter is refused"}`,
		"E0101 10:00:00.0 1 a.go:1] \"login failed\" err=\"authorization: Bearer hunterhunter refused\"",
	} {
		r := find(t, nil, Options{Redactor: redact.New(nil)}, input("a", line, nil))
		require.Len(t, r.Patterns, 1)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(text), "hunter", line)
		require.Contains(t, r.Patterns[0].Template+r.Patterns[0].Error, "login failed")
	}
	// Nor a secret that crosses the truncation.
	line := "cannot log in " + strings.Repeat("x ", maxExample/2-8) + "password=hunterhunter"
	r := find(t, nil, Options{Redactor: redact.New(nil)}, input("a", line, nil))
	require.NotContains(t, r.Patterns[0].Example, "hunt")
	require.LessOrEqual(t, len(r.Patterns[0].Example), maxExample)
}

// The number of patterns in memory is bounded, and evicted ones are counted.
func TestBounded(t *testing.T) {
	var b strings.Builder
	word := func(i int) string {
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprintf("%07d", i*7919))
	}
	const all = 5000
	for i := range all {
		fmt.Fprintf(&b, "error %s %s %s %s\n", word(i), word(i+1), word(i+2), word(i+3))
	}
	sum := func(r Report) int64 {
		n := r.EvictedLines
		for _, p := range r.Patterns {
			n += p.Count
		}
		return n
	}
	r := find(t, nil, Options{Patterns: 100}, input("a", b.String(), nil))
	require.LessOrEqual(t, r.All, 100)
	require.GreaterOrEqual(t, r.Evicted, int64(all-100))
	require.EqualValues(t, all, sum(r))
	require.EqualValues(t, all, r.Complaints)
	// One that others follow stays in memory while it repeats.
	b.Reset()
	for i := range all {
		fmt.Fprintf(&b, "error one two %s %s %s\ncannot open the valve\n", word(i), word(i+1), word(i+2))
	}
	r = find(t, nil, Options{Patterns: 100}, input("a", b.String(), nil))
	require.Contains(t, summary(r), fmt.Sprintf("unknown %d cannot open the valve", all))
	require.EqualValues(t, 2*all, sum(r))
	// A storm of one message with words that vary is one pattern.
	b.Reset()
	for i := range all {
		fmt.Fprintf(&b, "error: the valve of the tank %s is stuck again\n", word(i))
	}
	r = find(t, nil, Options{Patterns: 100}, input("a", b.String(), nil))
	require.Equal(t, []string{fmt.Sprintf("error %d error: the valve of the tank <*> is stuck again", all)}, summary(r))
}

func TestSameTwice(t *testing.T) {
	_, texts := lines(t)
	log := strings.Join(texts, "\n")
	a := find(t, nil, Options{}, input("a", log, nil), input("b", log, nil))
	for range 5 {
		require.Equal(t, a, find(t, nil, Options{}, input("a", log, nil), input("b", log, nil)))
	}
}

// The lines do not depend on the sizes of reads; the beginning of an endless line
// counts once.
func TestReading(t *testing.T) {
	_, texts := lines(t)
	log := strings.Join(texts, "\n")
	want := find(t, nil, Options{}, input("a", log, nil))
	for _, r := range []io.Reader{iotest.OneByteReader(strings.NewReader(log)), iotest.HalfReader(strings.NewReader(log)), iotest.DataErrReader(strings.NewReader(log))} {
		in := Input{Name: "a", Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}
		require.Equal(t, want, find(t, nil, Options{}, in))
	}
	endless := "cannot open it " + strings.Repeat("x", 3*blockSize) + "\ncannot shut it\n"
	require.Equal(t, []string{"unknown 1 cannot open it <id>", "unknown 1 cannot shut it"}, summary(find(t, nil, Options{}, input("a", endless, nil))))

	f, err := New(nil, Options{Now: now})
	require.NoError(t, err)
	bad := errors.New("disk on fire")
	broken := Input{Name: "b.log", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("cannot open it\n"), iotest.ErrReader(bad))), nil
	}}
	require.ErrorIs(t, f.Read(broken), bad)
	require.ErrorContains(t, f.Read(Input{Name: "c.log", Open: func() (io.ReadCloser, error) { return nil, bad }}), "read c.log")
	require.Len(t, f.Report(1, 0).Patterns, 1)
}

func TestReport(t *testing.T) {
	f, err := New(nil, Options{Now: now})
	require.NoError(t, err)
	require.NoError(t, f.Read(input("a", "E0101 10:00:00.0 1 a.go:1] cannot open it\nE0101 10:00:00.0 1 a.go:1] \"Sync failed\" err=<\n", nil)))
	require.EqualValues(t, 2, f.Report(1, 0).Lines)
	require.Empty(t, f.Report(2, 0).Patterns)
	require.Len(t, f.Report(1, 1).Patterns, 1)
	require.Equal(t, 2, f.Report(1, 1).All)
}

// A text that varies between the lines of a pattern does not identify them.
func TestProposeFor(t *testing.T) {
	var b strings.Builder
	for _, what := range strings.Fields("ant bee cat dog elk") {
		b.WriteString("E0101 10:00:00.0 1 a.go:1] cannot feed the old and hungry " + what + " today\n")
	}
	r := find(t, nil, Options{}, input("a", b.String(), nil))
	require.Equal(t, []string{"error 5 cannot feed the old and hungry <*> today"}, summary(r))
	require.Equal(t, []string{"cannot feed the old and hungry"}, ProposeFor(r.Patterns[0])[0].Texts)
	require.Equal(t, []string{"cannot feed the old and hungry ant today"}, Propose(string(r.Patterns[0].Example))[0].Texts)
}

func BenchmarkRead(b *testing.B) {
	var log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&log, "2026-01-01T00:00:00.%09dZ stderr F E0101 10:00:00.0 1 a.go:1] \"Reconciler error\" err=\"failed to create pod web-%d: quota exceeded\" Pod=\"shop/web-%d\"\n", i, i, i)
		fmt.Fprintf(&log, "2026-01-01T00:00:00.%09dZ stderr F I0101 10:00:00.0 1 a.go:1] \"Reconciling\" Pod=\"shop/web-%d\" reconcileID=\"%d\"\n", i, i, i)
	}
	b.SetBytes(int64(log.Len()))
	for b.Loop() {
		f, err := New(nil, Options{Now: now})
		require.NoError(b, err)
		require.NoError(b, f.Read(input("a", log.String(), nil)))
	}
}
