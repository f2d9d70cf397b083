package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// rawBatch is a batch as bytes, for content that no builder writes.
type rawBatch struct {
	rules, names, labels, values, texts []string
	hits                                int
	times                               []int64
}

func (r rawBatch) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(len(r.rules)))
	list := func(texts []string) {
		for _, s := range texts {
			b = appendString(b, s)
		}
	}
	for _, name := range r.rules {
		b = binary.AppendUvarint(appendString(appendString(b, name), "1"), uint64(len(r.names)))
		list(r.names)
	}
	b = binary.AppendUvarint(append(b, 1), uint64(len(r.labels)/2))
	list(r.labels)
	b = binary.AppendUvarint(append(b, 1, 0, 0), 2) // one record: rule 0, stream 0, the first step
	list(r.values)
	b = binary.AppendUvarint(b, uint64(r.hits))
	b = append(b, make([]byte, r.hits)...)
	for i := range r.hits {
		t := int64(0)
		if i < len(r.times) {
			t = r.times[i]
		}
		b = binary.AppendVarint(b, t)
	}
	for i := range r.hits {
		if i < len(r.texts) {
			b = appendString(append(b, textOwn), r.texts[i])
		} else {
			b = append(b, textSame)
		}
	}
	return append(b, make([]byte, 8*r.hits)...)
}

type refused struct {
	rawBatch
	message string
}

// boundaries are batches at a bound, and those beyond it with the error.
func boundaries() (good map[string]rawBatch, bad map[string]refused) {
	names := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("n", i)
		}
		return out
	}
	long := func(n int) []string { return []string{strings.Repeat("x", n)} }
	one := rawBatch{rules: []string{"A"}, labels: []string{"pod", "p"}, texts: []string{"line"}, hits: 1}
	with := func(change func(*rawBatch)) rawBatch {
		b := one
		change(&b)
		return b
	}
	good = map[string]rawBatch{
		"one":        one,
		"rules":      with(func(b *rawBatch) { b.rules = names(maxRules) }),
		"rule":       with(func(b *rawBatch) { b.rules = long(maxValue) }),
		"names":      with(func(b *rawBatch) { b.names, b.values = names(maxWants), names(maxWants) }),
		"labels":     with(func(b *rawBatch) { b.labels = names(2 * maxWants) }),
		"label":      with(func(b *rawBatch) { b.labels = append(long(maxValue), long(maxValue)...) }),
		"value":      with(func(b *rawBatch) { b.names, b.values = names(1), long(maxValue) }),
		"line":       with(func(b *rawBatch) { b.texts = long(matcher.MaxLine) }),
		"equal":      with(func(b *rawBatch) { b.texts, b.hits = long(matcher.MaxLine), maxRaw/matcher.MaxLine }),
		"hits":       with(func(b *rawBatch) { b.hits = maxHits }),
		"times":      with(func(b *rawBatch) { b.hits, b.times = 3, []int64{math.MaxInt64, math.MaxInt64, math.MinInt64} }),
		"before":     with(func(b *rawBatch) { b.times = []int64{math.MinInt64} }),
		"nothing":    with(func(b *rawBatch) { b.texts, b.rules, b.labels = []string{""}, []string{""}, []string{"", ""} }),
		"no UTF-8":   with(func(b *rawBatch) { b.texts, b.labels = []string{"\xff\x00"}, []string{"pod", "\xff"} }),
		"no streams": with(func(b *rawBatch) { b.labels = nil }),
	}
	bad = map[string]refused{
		"rules":       {with(func(b *rawBatch) { b.rules = names(maxRules + 1) }), "8193 rules are more than there can be"},
		"rule":        {with(func(b *rawBatch) { b.rules = long(maxValue + 1) }), "a rule has 8193 bytes, at most 8192"},
		"names":       {with(func(b *rawBatch) { b.names = names(maxWants + 1) }), "257 names are more"},
		"name":        {with(func(b *rawBatch) { b.names = long(maxValue + 1) }), "a name has 8193 bytes"},
		"labels":      {with(func(b *rawBatch) { b.labels = names(2*maxWants + 2) }), "257 labels are more"},
		"label":       {with(func(b *rawBatch) { b.labels = append([]string{"pod"}, long(maxValue+1)...) }), "a label has 8193 bytes"},
		"label twice": {with(func(b *rawBatch) { b.labels = []string{"pod", "a", "pod", "b"} }), "a stream has a label twice"},
		"value":       {with(func(b *rawBatch) { b.names, b.values = names(1), long(maxValue+1) }), "a value has 8193 bytes"},
		"line":        {with(func(b *rawBatch) { b.texts = long(matcher.MaxLine + 1) }), "a line has 16385 bytes"},
		"equal lines": {with(func(b *rawBatch) { b.texts, b.hits = long(matcher.MaxLine), maxRaw/matcher.MaxLine+1 }), "the lines have more than 8388608 bytes"},
		"hits":        {with(func(b *rawBatch) { b.hits = maxHits + 1 }), "65537 hits are more"},
	}
	return good, bad
}

// TestBoundsOfBatches decodes batches at each bound and refuses them beyond it.
func TestBoundsOfBatches(t *testing.T) {
	good, bad := boundaries()
	for name, raw := range good {
		b, err := new(Decoder).Decode(squeezed(raw.encode()))
		require.NoError(t, err, name)
		require.Equal(t, raw.hits, b.Len(), name)
		found, out := b.FindHits(NewIndex(setOf(demoRule("A"))))
		require.Len(t, found, out.AcceptedHits, name)
		payload, n := b.UnknownHits(NewIndex(setOf(demoRule("A"))))
		require.LessOrEqual(t, len(payload), MaxPayload, name)
		require.LessOrEqual(t, n, b.Len(), name)
		if payload != nil {
			_, err = new(Decoder).Decode(payload)
			require.NoError(t, err, "%s: the hits that are kept until their rule is loaded", name)
		}
	}
	for name, raw := range bad {
		_, err := new(Decoder).Decode(squeezed(raw.encode()))
		require.ErrorContains(t, err, raw.message, name)
	}
}

// TestBoundsOfMessages reads messages with extreme numbers, times and names.
func TestBoundsOfMessages(t *testing.T) {
	long := strings.Repeat("a", MaxName)
	f := func(m Message, want string) {
		t.Helper()
		got, err := ReadMessage(m.Append(nil))
		if want != "" {
			require.ErrorContains(t, err, want)
			return
		}
		require.NoError(t, err)
		require.False(t, got.SentAt.Year() < 1970 || got.SentAt.Year() > 2200, got.SentAt)
		require.False(t, !got.Watermark.IsZero() && (got.Watermark.Year() < 1970 || got.Watermark.Year() > 2200), got.Watermark)
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Unix(math.MaxInt64, 0)} {
		f(Message{Node: "n", Instance: "i", OldestSequence: 1, SentAt: at, Watermark: at}, "")
	}
	f(Message{Node: long, Instance: long[:maxInstance], OldestSequence: 1}, "")
	f(Message{Node: long + "a", Instance: "i", OldestSequence: 1}, "has 1 to 253 bytes, not 254")
	f(Message{Node: "n", Instance: long[:maxInstance+1], OldestSequence: 1}, "the name of an instance has 1 to 64 characters")
	f(Message{Node: "n", Instance: "i", Sequence: 1 << 62, OldestSequence: 1 << 62}, "")
	f(Message{Node: "n", Instance: "i", Sequence: 1<<62 + 1, OldestSequence: 1}, "no process has sent")
	f(Message{Node: "n", Instance: "i", Sequence: math.MaxUint64, OldestSequence: 1}, "is impossible when")
	f(Message{Node: "n", Instance: "i", Sequence: math.MaxUint64, OldestSequence: math.MaxUint64, Payload: []byte{1}}, "is impossible when")
	f(Message{Node: "n", Instance: "i", OldestSequence: math.MaxUint64}, "is impossible when")
}

// TestBoundsOfReports reads reports at each bound and refuses them beyond it.
func TestBoundsOfReports(t *testing.T) {
	read := func(fields string) (Report, error) {
		return ReadReport([]byte(`{"node":"n","instance":"i",` + fields + `}`))
	}
	condition := func(fields string) (Condition, error) {
		r, err := read(`"conditions":[{"alert":"CrowsnestX","severity":"info"` + fields + `}]`)
		if err != nil {
			return Condition{}, err
		}
		return r.Conditions[0], nil
	}
	conditions := func(n int) string {
		return `"conditions":[` + strings.TrimSuffix(strings.Repeat(`{"alert":"CrowsnestX","severity":"info"},`, n), ",") + `]`
	}
	entries := func(n int, value string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%q:%q", "l"+strings.Repeat("_", i), value))
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	rules := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`"r%d":"a"`, i))
		}
		return `"rules":{` + strings.Join(out, ",") + `}`
	}
	for _, good := range []string{conditions(MaxConditions), rules(maxRules), `"rules":{"` + strings.Repeat("r", maxLabel) + `":"` + strings.Repeat("a", 64) + `"}`, `"rules":{"r":"a","r":"b"}`, `"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
		_, err := read(good)
		require.NoError(t, err, "%.60s", good)
	}
	for _, bad := range []string{
		conditions(MaxConditions + 1), rules(maxRules + 1), `"rules":{"` + strings.Repeat("r", maxLabel+1) + `":"a"}`, `"rules":{"r":"` + strings.Repeat("a", 65) + `"}`,
		`"rules":{"r":{"a":1}}`, `"conditions":[[]]`, `"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		_, err := read(bad)
		require.ErrorContains(t, err, "read report: ", "%.60s", bad)
	}
	for _, good := range []string{`,"count":0`, fmt.Sprintf(`,"count":%d`, maxCount), `,"labels":` + entries(maxLabels, "v")} {
		_, err := condition(good)
		require.NoError(t, err, good)
	}
	for _, bad := range []string{
		`,"count":-1`, fmt.Sprintf(`,"count":%d`, maxCount+1), `,"count":9223372036854775807`, `,"count":9223372036854775808`, `,"count":1.5`, `,"count":1e400`,
		`,"labels":` + entries(maxLabels+1, "v"), `,"since":"10000-01-01T00:00:00Z"`, `,"since":5`,
	} {
		_, err := condition(bad)
		require.ErrorContains(t, err, "read report: ", bad)
	}
	for _, at := range []string{"0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"} {
		c, err := condition(fmt.Sprintf(`,"since":%q,"last":%q`, at, at))
		require.NoError(t, err, at)
		for _, got := range []time.Time{c.Since, c.LastSeen} {
			require.False(t, got.Year() < 1970 || got.Year() > 2262, got)
		}
	}
	c, err := condition(`,"detail":"` + strings.Repeat("x", maxDetail+1) + `","labels":` + entries(1, strings.Repeat("y", maxLabel+1)))
	require.NoError(t, err)
	require.Len(t, c.Detail, maxDetail)
	require.Len(t, c.Labels["l"], maxLabel)
}
