package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every page has a template that can be parsed.
func TestPagesParse(t *testing.T) {
	for name, parse := range newPages(readAssets) {
		require.NotPanics(t, func() { parse() }, name)
	}
}

// Of several problems one is stated, and the others unfold: on a phone the alerts stay visible.
func TestProblemsUnfold(t *testing.T) {
	v := exampleView()
	v.Endpoints = func() (out []Endpoint) {
		for i := range 30 {
			out = append(out, Endpoint{Sink: "webhook", Endpoint: fmt.Sprint("http://w-", i), Error: hostile})
		}
		return out
	}
	body := request(newTestServer(t, v, Options{}), "GET", "/").Body.String()
	require.Equal(t, 1, strings.Count(body, `<p class="notice">`))
	require.Contains(t, body, "<summary>29 more problems</summary>")
	require.Equal(t, 10, strings.Count(body, "Not delivered to webhook"))
	require.NotContains(t, body, "<script>alert")
}
