package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// A lookup of receivers that fails is stated on every page, and listed with its error.
func TestFailingLookup(t *testing.T) {
	v := exampleView()
	status := v.Status()
	status.Discoveries = []Discovery{
		{Sink: "alertmanager", Discovery: "SRV am.example", Error: hostile, Targets: 3, Failures: 9, FailingSince: time.Now().Add(-time.Hour)},
		{Sink: "alertmanager", Discovery: "/etc/am.yml", Up: true, Targets: 1},
	}
	v.Status = func() Status { return status }
	s := newTestServer(t, v, Options{})
	require.Contains(t, request(s, "GET", "/").Body.String(), "alertmanager cannot look up SRV am.example: ")
	body := request(s, "GET", "/sources").Body.String()
	require.Contains(t, body, "The 3 that it found last stay")
	require.Contains(t, body, "<code>/etc/am.yml</code>")
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, request(s, "GET", "/api/v1/sources").Body.String(), `"discovery":"SRV am.example","up":false`)
}
