package wire

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/rules/selector"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)

func demoRule(name string, wants ...string) *rules.Rule {
	return &rules.Rule{
		Alert: name, Hash: "1", Mode: rules.ModeOn, Count: 1, Steps: make([]rules.Step, 2),
		Clear: &rules.ClearOrUnless{}, Unless: &rules.ClearOrUnless{}, CapturedNames: wants,
	}
}

func setOf(rs ...*rules.Rule) *rules.Set { return &rules.Set{Rules: rs} }

// addBorrowed adds a hit whose texts are overwritten afterwards.
func (b *Builder) addBorrowed(h matcher.Hit) {
	memory := []byte(h.Line)
	h.Line = unsafe.String(unsafe.SliceData(memory), len(memory))
	values := make([]string, len(h.Values))
	for i, v := range h.Values {
		own := []byte(v)
		values[i] = unsafe.String(unsafe.SliceData(own), len(own))
		defer clear(own)
	}
	h.Values = values
	b.Add(&h)
	clear(memory)
	clear(values)
}

// over sends hits through a batch.
func over(t require.TestingT, set *rules.Set, in []matcher.Hit) ([]matcher.Hit, Outcome) {
	var b Builder
	for _, h := range in {
		b.addBorrowed(h)
	}
	payload := b.Seal()
	require.Zero(t, b.Len())
	require.Zero(t, b.Size())
	require.Nil(t, b.Seal())
	batch, err := new(Decoder).Decode(payload)
	require.NoError(t, err)
	require.Equal(t, len(in), batch.Len())
	return batch.FindHits(NewIndex(set))
}

// A batch keeps everything that affects decisions, in order. It keeps the text of the
// newest line of a record, and of as many of the first as can open an episode.
func TestNothingIsLostOnTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := []*rules.Rule{demoRule("A", "k", "v"), demoRule("B"), demoRule("C", "k")}
		rs[0].Count = rapid.IntRange(1, 40).Draw(t, "count")
		streams := []matcher.Labels{nil, {"pod": "p0"}, {"pod": "p1", "namespace": "n"}, {"pod": "p0"}}
		n := rapid.IntRange(1, 300).Draw(t, "n")
		in := make([]matcher.Hit, n)
		for i := range in {
			r := rapid.SampledFrom(rs).Draw(t, "rule")
			values := make([]string, len(r.CapturedNames))
			for k := range values {
				values[k] = rapid.SampledFrom([]string{"", "x", "y\xff", strings.Repeat("z", 300)}).Draw(t, "value")
			}
			in[i] = matcher.Hit{
				Rule: r, Part: matcher.Part(rapid.IntRange(-2, 1).Draw(t, "part")), Values: values,
				Labels: rapid.SampledFrom(streams).Draw(t, "stream"),
				Time:   start.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "t"))),
				Line:   rapid.SampledFrom([]string{"", "a line", "another line \x00"}).Draw(t, "line") + fmt.Sprint(i/2),
				ID:     rapid.Uint64().Draw(t, "id"),
			}
		}
		got, outcome := over(t, setOf(rs...), in)
		require.Equal(t, Outcome{AcceptedHits: n}, outcome)
		require.Len(t, got, n)
		lines, last := map[string]int{}, map[string]int{}
		key := func(h matcher.Hit) string {
			return fmt.Sprintf("%s/%d/%q/%v", h.Rule.Alert, h.Part, h.Values, h.Labels)
		}
		for i, h := range in {
			last[key(h)] = i
		}
		for i, h := range in {
			g, k := got[i], key(h)
			require.Same(t, h.Rule, g.Rule)
			require.Equal(t, k, key(g))
			require.Equal(t, h.ID, g.ID)
			require.True(t, h.Time.Equal(g.Time))
			if lines[k]++; lines[k] <= min(maxTexts, h.Rule.Count) || last[k] == i {
				require.Equal(t, h.Line, g.Line)
			} else {
				require.NotEmpty(t, g.Line)
			}
		}
	})
}

// A repeated line costs little more than its fingerprint.
func TestRepeatsAreFolded(t *testing.T) {
	r := demoRule("A", "pod", "lease")
	labels := matcher.Labels{"pod": "cm-0", "namespace": "kube-system", "container": "cm", "filename": "/var/log/pods/kube-system_cm-0_1/cm/0.log"}
	var b Builder
	for i := range 10_000 {
		at := start.Add(time.Duration(i) * 17 * time.Millisecond)
		b.Add(&matcher.Hit{
			Rule: r, Time: at, Values: []string{"cm-0", "kube-system/cm"}, Labels: labels, ID: uint64(i) * 0x9E3779B97F4A7C15,
			Line: fmt.Sprintf("E0101 00:00:00.%06d       1 leaderelection.go:330] error retrieving resource lock", i),
		})
	}
	payload := b.Seal()
	t.Logf("10,000 hits: %d bytes", len(payload))
	require.Less(t, len(payload), 16*10_000)
}

// A builder that is not full accepts any hit, and its batch is small enough to be
// decoded.
func TestTheGreatestBatchIsRead(t *testing.T) {
	var wants []string
	for i := range 60 {
		wants = append(wants, fmt.Sprintf("name_%d", i))
	}
	r := demoRule("A", wants...)
	r.Count = 256
	rng := uint64(1)
	noise := func(n int) string {
		out := make([]byte, 0, n+8)
		for len(out) < n {
			rng ^= rng << 13
			rng ^= rng >> 7
			rng ^= rng << 17
			out = binary.LittleEndian.AppendUint64(out, rng)
		}
		return string(out[:n])
	}
	var b Builder
	n := 0
	for ; !b.IsFull(); n++ {
		h := matcher.Hit{Rule: r, Time: start, ID: uint64(n), Line: noise(matcher.MaxLine), Labels: matcher.Labels{"pod": noise(200)}}
		for range wants {
			h.Values = append(h.Values, noise(matcher.MaxLine))
		}
		b.Add(&h)
	}
	payload := b.Seal()
	require.LessOrEqual(t, len(payload), MaxPayload)
	batch, err := new(Decoder).Decode(payload)
	require.NoError(t, err)
	require.Equal(t, n, batch.Len())

	small := matcher.Hit{Rule: demoRule("B"), Time: start, Line: "x"}
	for n = 0; !b.IsFull(); n++ {
		b.Add(&small)
	}
	batch, err = new(Decoder).Decode(b.Seal())
	require.NoError(t, err)
	require.Equal(t, n, batch.Len())
}

// Of three equal lines, the middle one arrives without its text: it is accepted
// unchanged if it fits. The others are evaluated again.
func TestOtherVersionsOfARule(t *testing.T) {
	sent := demoRule("A", "k", "v")
	sent.Hash = "old"
	sel, err := selector.Parse(`{pod="p0"}`)
	require.NoError(t, err)
	f := func(change func(*rules.Rule), want Outcome) []matcher.Hit {
		t.Helper()
		ours := demoRule("A", "v", "k").WithFrom(rules.Selector{}, sel)
		change(ours)
		in := make([]matcher.Hit, 3)
		for i := range in {
			in[i] = matcher.Hit{Rule: sent, Part: 1, Values: []string{"of k", "of v"}, Labels: matcher.Labels{"pod": "p0"}, Time: start, Line: "a", ID: uint64(i)}
		}
		got, outcome := over(t, setOf(ours), in)
		require.Equal(t, want, outcome)
		return slices.DeleteFunc(got, func(h matcher.Hit) bool { return outcome.OtherVersionHits > 0 && h.ID != 1 })
	}
	got := f(func(*rules.Rule) {}, Outcome{AcceptedHits: 3, OtherVersionHits: 3})
	require.Equal(t, []string{"of v", "of k"}, got[0].Values)
	got = f(func(r *rules.Rule) { r.Hash = "old" }, Outcome{AcceptedHits: 3})
	require.Equal(t, []string{"of v", "of k"}, got[0].Values)
	f(func(r *rules.Rule) { r.CapturedNames = nil }, Outcome{AcceptedHits: 3, OtherVersionHits: 3})

	dropped := func(why Reason, n int) Outcome { return Outcome{DroppedHits: map[Reason]int{why: n}} }
	f(func(r *rules.Rule) { r.Alert = "B" }, dropped(ReasonUnknown, 3))
	f(func(r *rules.Rule) { r.Mode = rules.ModeOff }, dropped(reasonDisabled, 3))
	other, err := selector.Parse(`{pod="p1"}`)
	require.NoError(t, err)
	f(func(r *rules.Rule) { *r = *r.WithFrom(sel, other) }, dropped(reasonSelector, 3))
	one := func(why Reason) Outcome {
		return Outcome{AcceptedHits: 2, OtherVersionHits: 2, DroppedHits: map[Reason]int{why: 1}}
	}
	f(func(r *rules.Rule) { r.CapturedNames = []string{"k", "new"} }, one(reasonWants))
	f(func(r *rules.Rule) { r.Steps = r.Steps[:1] }, one(reasonPart))
	f(func(r *rules.Rule) { r.Steps[1].From = other }, one(reasonSelector))
	f(func(r *rules.Rule) { r.Steps[0].From, r.Clear.From = other, other }, Outcome{AcceptedHits: 3, OtherVersionHits: 3})
	f(func(r *rules.Rule) { r.Steps, r.Hash = r.Steps[:1], "old" }, dropped(reasonPart, 3))
}

func squeezed(raw []byte) []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestCompression)
	_, _ = w.Write(raw)
	_ = w.Close()
	return out.Bytes()
}

func TestHostileBatches(t *testing.T) {
	f := func(payload []byte, want string) {
		t.Helper()
		_, err := new(Decoder).Decode(payload)
		require.ErrorContains(t, err, want)
	}
	f(nil, "unexpected EOF")
	f([]byte("no deflate"), "corrupt")
	f(make([]byte, MaxPayload+1), "the compressed batch has 1048577 bytes")
	f(squeezed(nil), "incomplete")
	f(squeezed(make([]byte, 64<<20)), "unpacks to more than")
	f(squeezed(make([]byte, maxRaw)), "bytes follow it")
	f(append(squeezed([]byte{0, 0, 0, 0}), 1), "1 extra bytes follow it")
	f(squeezed([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}), "rules are more than there can be")
	f(squeezed([]byte{0, 0, 1, 0, 0, 0}), "there is no rule 0")
	f(squeezed([]byte{1, 1, 'A', 0, 0, 1, 0, 1, 0, 0, 2, 3, 0, 0, 0}), "incomplete")
	f(squeezed(append([]byte{1, 1, 'A', 0, 0, 1, 0, 1, 0, 0, 2, 1, 9}, make([]byte, 10)...)), "there is no record 9")
	f(squeezed(append([]byte{1, 1, 'A', 0, 0, 1, 0, 1, 0, 0, 2, 1, 0, 0, 7}, make([]byte, 8)...)), "unknown kind of text")
	batch, err := new(Decoder).Decode(EmptyBatch())
	require.NoError(t, err)
	require.Zero(t, batch.Len())
}

func TestMessages(t *testing.T) {
	f := func(m Message) {
		t.Helper()
		got, err := ReadMessage(m.Append(nil))
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	f(Message{Node: "node-1", Instance: "a", OldestSequence: 1, SentAt: start})
	f(Message{Node: "node-1", Instance: "a", EarlierInstances: []string{"b", "c"}, Sequence: 7, OldestSequence: 3, SentAt: start, Watermark: start, Payload: []byte("payload")})
	f(Message{Node: "node-1", Instance: "a", Sequence: 7, OldestSequence: 8, SentAt: start, Goodbye: true, Final: true})

	lagging := []matcher.LaggingStream{{Labels: matcher.Labels{"namespace": "a", "pod": "b"}, UnknownLabels: []string{"filename"}, ReadUpTo: start}}
	with := Message{Node: "node-1", Instance: "a", Sequence: 7, OldestSequence: 3, SentAt: start, Watermark: start, Lagging: lagging, Payload: []byte("payload")}
	f(with)
	lagging[0].Labels["path"] = "x\xff"
	got, err := ReadMessage(with.Append(nil))
	require.NoError(t, err)
	require.Equal(t, []string{"filename", "path"}, got.Lagging[0].UnknownLabels, "a value that JSON cannot encode is not known")
	require.Equal(t, matcher.Labels{"namespace": "a", "pod": "b"}, got.Lagging[0].Labels)
	lagging[0].Labels["path"] = strings.Repeat("x", maxLagging)
	got, err = ReadMessage(with.Append(nil))
	require.NoError(t, err)
	require.Equal(t, []matcher.LaggingStream{{ReadUpTo: start}}, got.Lagging, "too much: any stream")
	with.Lagging = slices.Repeat([]matcher.LaggingStream{{Labels: matcher.Labels{}, ReadUpTo: start}}, matcher.MaxLagging+1)
	got, err = ReadMessage(with.Append(nil))
	require.NoError(t, err)
	require.Len(t, got.Lagging, 1)

	bad := func(m Message, want string) {
		t.Helper()
		_, err := ReadMessage(m.Append(nil))
		require.ErrorContains(t, err, want)
	}
	bad(Message{Instance: "a", OldestSequence: 1}, "the name of a node has 1 to 253 bytes")
	bad(Message{Node: "a/b", Instance: "a", OldestSequence: 1}, "use only a-z")
	bad(Message{Node: "a", OldestSequence: 1}, "the name of an instance has 1 to 64 characters")
	bad(Message{Node: "a", Instance: "a", EarlierInstances: []string{"/"}, OldestSequence: 1}, "the name of an instance has 1 to 64 characters")
	bad(Message{Node: "a", Instance: "a", EarlierInstances: slices.Repeat([]string{"b"}, 17), OldestSequence: 1}, "17 instances and 0 lagging streams")
	bad(Message{Node: "a", Instance: "a"}, "is impossible when")
	bad(Message{Node: "a", Instance: "a", Sequence: 1, OldestSequence: 3}, "is impossible when")
	bad(Message{Node: "a", Instance: "a", Sequence: 1, OldestSequence: 2, Payload: []byte{1}}, "is impossible when")
	bad(Message{Node: strings.Repeat("a", 254), Instance: "a", OldestSequence: 1}, "1 to 253 bytes")

	_, err = ReadMessage([]byte("GET / HTTP/1.1"))
	require.ErrorContains(t, err, "it does not come from crowsnest")
	_, err = ReadMessage([]byte("{\"v\":2}\n"))
	require.ErrorIs(t, err, ErrVersion)
	whole := (&Message{Node: "node-1", Instance: "a", Sequence: 1, OldestSequence: 1, SentAt: start, Watermark: start}).Append(nil)
	for n := range len(whole) {
		_, err := ReadMessage(whole[:n])
		require.Error(t, err)
	}
	_, err = ReadMessage(append([]byte(`{"v":1,"node":"`+strings.Repeat("a", maxEnvelope)), '\n'))
	require.Error(t, err)
}

// seedBatch returns a batch that contains every kind of field.
func seedBatch() []byte {
	var b Builder
	r := demoRule("A", "k")
	for i := range 5 {
		b.Add(&matcher.Hit{Rule: r, Part: matcher.Part(i%4 - 2), Time: start.Add(time.Duration(i)), Values: []string{"x"}, Labels: matcher.Labels{"pod": "p"}, Line: "line", ID: uint64(i)})
	}
	return b.encode(nil)
}

// Any input is refused or decodes to a batch that can be applied, encoded and decoded
// again.
func FuzzDecode(f *testing.F) {
	f.Add(seedBatch())
	f.Add([]byte{0, 0, 0, 0})
	good, bad := boundaries()
	for name, raw := range bad {
		for _, b := range []rawBatch{raw.rawBatch, good[name]} {
			if seed := b.encode(); len(seed) < 64<<10 {
				f.Add(seed)
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d Decoder
		_, _ = d.Decode(raw)
		batch, err := d.Decode(squeezed(raw))
		if err != nil {
			return
		}
		set := setOf(demoRule("A", "k"))
		got, outcome := batch.FindHits(NewIndex(set))
		// Several parts of another version of the rule may match the line of one hit.
		require.GreaterOrEqual(t, len(got), outcome.AcceptedHits)
		if outcome.OtherVersionHits == 0 {
			require.Len(t, got, outcome.AcceptedHits)
		}
		if len(got) == 0 {
			return
		}
		var b Builder
		for i := range got {
			b.Add(&got[i])
		}
		evaluateAgain, err := d.Decode(b.Seal())
		require.NoError(t, err)
		require.Equal(t, len(got), evaluateAgain.Len())
	})
}

func FuzzMessage(f *testing.F) {
	m := Message{Node: "node-1", Instance: "a", EarlierInstances: []string{"b"}, Sequence: 7, OldestSequence: 3, SentAt: start, Watermark: start, Payload: []byte("payload")}
	f.Add(m.Append(nil))
	m.Lagging = []matcher.LaggingStream{{Labels: matcher.Labels{"pod": "p"}, UnknownLabels: []string{"filename"}, ReadUpTo: start}, {}}
	f.Add(m.Append(nil))
	f.Add((&Message{Node: "n", Instance: "i", Sequence: 1 << 62, OldestSequence: 1 << 62, SentAt: time.Unix(-1, 0)}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadMessage(b)
		if err != nil {
			return
		}
		// Times are clamped, and a list may be empty: what was written once does not change again.
		written := m.Append(nil)
		again, err := ReadMessage(written)
		require.NoError(t, err)
		require.Equal(t, m.Sequence, again.Sequence)
		require.Equal(t, m.Payload, again.Payload)
		require.Equal(t, written, again.Append(nil))
	})
}
