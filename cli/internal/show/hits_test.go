package show

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

func encoded(t require.TestingT, file string, hit matcher.Hit) string {
	at := hit.Time.UTC()
	line := hitLine{
		Rule: hit.Rule.Alert, Part: hit.Part.Name(hit.Rule), File: file, LineNumber: hit.LineNumber,
		Time: &at, Labels: hit.Labels, Vars: map[string]redact.Text{}, Line: redact.Text(hit.Line),
	}
	for i, name := range hit.Rule.CapturedNames {
		if i < len(hit.Values) && hit.Values[i] != "" {
			line.Vars[name] = redact.Text(hit.Values[i])
		}
	}
	var b strings.Builder
	require.NoError(t, JSON(&b, line, false))
	return b.String()
}

// Each hit is written as encoding/json writes it, regardless of the hits before.
func TestHitsAreJSON(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`), rapid.SampledFrom([]string{
		"", `a "quoted" \ text`, "\x00\x1f\x7f\b\f\n\r\t", "\u2028\u2029<>&", "\xff\xc3", "é \xf0\x9f", strings.Repeat("0123456", 9) + "\"",
	}))
	rapid.Check(t, func(t *rapid.T) {
		var of []*rules.Rule
		for range rapid.IntRange(1, 3).Draw(t, "rules") {
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "z", "namespace", "é"}), 0, 4, rapid.ID[string]).Draw(t, "names")
			of = append(of, &rules.Rule{Alert: texts.Draw(t, "alert"), CapturedNames: names, Sequence: rapid.Bool().Draw(t, "sequence")})
		}
		streams := []matcher.Labels{nil, {}, {texts.Draw(t, "label"): texts.Draw(t, "value"), "pod": "x"}}
		var got bytes.Buffer
		h := Hits{W: bufio.NewWriterSize(&got, 100), Form: "jsonl", WithClearLines: true}
		want := ""
		for n := range rapid.Int64Range(1, 10).Draw(t, "lines") {
			hit := matcher.Hit{
				Rule: rapid.SampledFrom(of).Draw(t, "rule"), Part: matcher.Part(rapid.IntRange(-2, 2).Draw(t, "part")), LineNumber: n,
				Time: time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).In(time.FixedZone("", 3600)),
				Line: texts.Draw(t, "line"), Labels: rapid.SampledFrom(streams).Draw(t, "stream"),
				Values: rapid.SliceOfN(texts, 0, 4).Draw(t, "values"),
			}
			file := rapid.SampledFrom([]string{"f", "g\"", ""}).Draw(t, "file")
			want += encoded(t, file, hit)
			h.Add(file, []matcher.Hit{hit})
		}
		require.NoError(t, h.Finish())
		require.NoError(t, h.W.Flush())
		require.Equal(t, want, got.String())
	})
}

// A hit whose next line is read later does not keep the memory of the block.
func TestHitsKeepNoText(t *testing.T) {
	r := &rules.Rule{Alert: "A", CapturedNames: []string{"v"}}
	text := []byte("the line")
	hits := []matcher.Hit{{Rule: r, LineNumber: 1, Time: time.Unix(0, 0), Line: string(text), Values: []string{"value"}}}
	want := encoded(t, "f", hits[0])
	var got bytes.Buffer
	h := Hits{W: bufio.NewWriter(&got), Form: "jsonl"}
	h.Add("f", hits)
	hits[0].Values[0], hits[0].Line = "other", "other"
	h.Flush()
	require.Equal(t, want, got.String())
}

func BenchmarkHits(b *testing.B) {
	r := &rules.Rule{Alert: "ClusterAPIAggregationFails", CapturedNames: []string{"namespace", "name"}}
	line := `E1120 10:00:00.001957       1 handler.go:159] "Failed to aggregate ControlPlane, MachinePool, MachineDeployment's RollingOut conditions" err="the server has asked for the client to provide credentials" controller="machinepool" controllerKind="MachinePool" MachinePool="team-red/turin" namespace="team-red" name="turin" reconcileID="a9e9114c-42f3-4f04-a621-14bea3915eb7"`
	hits := []matcher.Hit{{Rule: r, Time: time.Now(), Line: line, Values: []string{"team-red", "turin"}}}
	h := Hits{W: bufio.NewWriterSize(io.Discard, 64<<10), Form: "jsonl", Redact: redact.New(nil)}
	b.ReportAllocs()
	for b.Loop() {
		hits[0].LineNumber++
		h.Add("f", hits)
	}
}
