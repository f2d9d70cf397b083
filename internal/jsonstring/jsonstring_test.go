package jsonstring

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// reference is what encoding/json writes.
func reference(t require.TestingT, s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(s))
	return strings.TrimSuffix(b.String(), "\n")
}

// check appends s with little and with much room, and requires that nothing else is written to.
func check(t require.TestingT, s string) {
	want := reference(t, s)
	for _, spare := range []int{0, 1, len(s), 4 * len(s)} {
		const before, behind = "before", "behind"
		memory := []byte(before + strings.Repeat("-", spare) + behind)
		got := Append(memory[:len(before):len(before)+spare], s)
		require.Equal(t, before+want, string(got))
		require.Equal(t, behind, string(memory[len(memory)-len(behind):]))
	}
}

func TestAppend(t *testing.T) {
	for _, s := range []string{
		"", `"\`, `a "quoted" \ text`, "\x00\x1f\x7f\b\f\n\r\t", "\u2028\u2029<>&", "\xff\xc3", "é \xf0\x9f", "é\u2028\xff",
		strings.Repeat(`"`, 200), strings.Repeat("0123456", 9) + "\"", strings.Repeat("a", 32) + "\n", strings.Repeat("é", 40),
	} {
		check(t, s)
	}
	// A special character at each place of texts of each length.
	for n := range 100 {
		for at := range n {
			for _, special := range []string{`"`, "\x1f", "é", "\xff"} {
				check(t, strings.Repeat("a", at)+special+strings.Repeat("b", n-at-1))
			}
		}
	}
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,200}`), rapid.StringMatching(`[a"\\]{0,100}`))
	rapid.Check(t, func(t *rapid.T) { check(t, texts.Draw(t, "text")) })
}

func FuzzAppend(f *testing.F) {
	for _, s := range []string{"", `"\`, "0123456\"89", "\x1f2345678", "abcdefg\x80", "é\u2028\xff", strings.Repeat(`a"`, 20)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { check(t, s) })
}

func BenchmarkAppend(b *testing.B) {
	line := `E1120 10:00:00.001957       1 handler.go:159] "Failed to aggregate ControlPlane, MachinePool, MachineDeployment's RollingOut conditions" err="the server has asked for the client to provide credentials" controller="machinepool" controllerKind="MachinePool" MachinePool="team-red/turin" namespace="team-red" name="turin" reconcileID="a9e9114c-42f3-4f04-a621-14bea3915eb7"`
	for name, text := range map[string]string{"ascii": line, "other": strings.Repeat("日志 é", 40)} {
		b.Run(name, func(b *testing.B) {
			var out []byte
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				out = Append(out[:0], text)
			}
		})
	}
}
