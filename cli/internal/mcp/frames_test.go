package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/cli/internal/api"
)

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

type message struct {
	ID    *int
	Error *struct {
		Code    int
		Message string
	}
	Result json.RawMessage
}

// talk sends lines to a server and returns what it wrote when it had ended.
func talk(t *testing.T, lines ...string) (out []message) {
	t.Helper()
	daemon, err := api.New("http://127.0.0.1:1", "")
	require.NoError(t, err)
	s := New(Config{Daemon: daemon, Rules: demoRules, RulesName: "demo.yaml", Version: "1", Now: time.Now, Log: zerolog.Nop()})
	var written bytes.Buffer
	require.NoError(t, s.Run(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &written))
	for line := range strings.Lines(written.String()) {
		var m message
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		out = append(out, m)
	}
	return out
}

func callOf(id, tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// Input that is no message is answered with an error, and the session goes on. Calls that are
// still open when the input ends are answered.
func TestMalformedInput(t *testing.T) {
	got := talk(t, initialize, initialized,
		"garbage\x1b[31m{", "", `{"jsonrpc":"1.0","id":2,"method":"ping"}`, `[]`, `42`, "\xff\xfe", `{"jsonrpc":"2.0","id":77,"result":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"explain","arguments":{"line":"`+strings.Repeat("x", maxFrame)+`"}}}`,
		callOf("3", "missing", "{}"), callOf("4", "explain", `[1]`), callOf("5", "explain", `{"line":7}`), callOf("6", "explain", `{"line":"lost the lease"}`))
	refused, answers := []string{}, map[int]message{}
	for _, m := range got {
		if m.ID == nil {
			refused = append(refused, m.Error.Message)
			require.NotContains(t, m.Error.Message, "\x1b")
			continue
		}
		answers[*m.ID] = m
	}
	require.Len(t, refused, 6)
	require.Contains(t, refused[0], "not a message of JSON-RPC 2.0")
	require.Contains(t, refused[2], "batches are not supported")
	require.Contains(t, refused[5], "the message has more than 8 MiB")
	require.Len(t, answers, 5)
	require.Contains(t, answers[3].Error.Message, `unknown tool "missing"`)
	require.Contains(t, string(answers[5].Result), `"isError":true`)
	require.Contains(t, string(answers[6].Result), "This line matches 1 of 2 rules.")
}

func TestEndWithoutNewline(t *testing.T) {
	require.Len(t, talk(t, initialize), 1)
	require.Empty(t, talk(t))
	require.Len(t, talk(t, strings.Repeat("x", maxFrame+5)), 1)
}
