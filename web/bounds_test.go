package web

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBoundsOfParameters sends each parameter to each route at its bounds and
// beyond them: what is refused has status 400 or 404 and a message, and nothing
// is an error of the server.
func TestBoundsOfParameters(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{})
	matchers := func(n int) string { return strings.TrimSuffix(strings.Repeat(`a="b",`, n), ",") }
	sized := func(n int) string { return `a="` + strings.Repeat("b", n-4) + `"` }
	pattern := func(p string) string { return `a=~"` + p + `"` }
	parameters := []struct {
		name, value, message string
	}{
		{"filter", matchers(maxMatchers), ""},
		{"filter", matchers(maxMatchers + 1), "more than 32 matchers"},
		{"filter", sized(maxFilters), ""},
		{"filter", sized(maxFilters + 1), "at most 4096 are allowed"},
		{"match[]", sized(maxFilters + 1), "at most 4096 are allowed"},
		{"filter", pattern(strings.Repeat("x", maxPattern)), ""},
		{"filter", pattern(strings.Repeat("x", maxPattern+1)), "at most 256 are allowed"},
		{"filter", pattern("(((x{100}){100}){100}){100}"), "invalid repeat count"},
		{"filter", pattern("((x{9}){9}){5}"), ""},
		{"filter", pattern("((x{10}){10}){10}|((y{10}){10}){10}"), "too large"},
		{"filter", pattern("("), "missing closing"},
		{"filter", `a`, ""},
		{"filter", `{a}`, "write matchers such as"},
		{"filter", strings.TrimSpace(strings.Repeat("a ", maxMatchers+1)), "more than 32"},
		{"page", "-1", ""},
		{"filter", "a=\"\xff\"", "write matchers such as"},
		{"filter", "a=\"\x00\"", ""},
		{"filter", "", ""},
		{"state", "firing", ""},
		{"state", "", "is not one of"},
		{"state", strings.Repeat("x", 60_000), "is not one of"},
		{"limit", "-1", ""}, // no such parameter: nothing depends on it
		{"since", "9223372036854775808", ""},
	}
	for _, route := range []string{"/", "/api/v1/alerts", "/api/v1/episodes", "/api/v1/counts"} {
		for _, p := range parameters {
			w := request(s, "GET", route+"?"+url.Values{p.name: {p.value}}.Encode())
			if p.message == "" {
				require.Equal(t, 200, w.Code, "%s %s=%.60q: %.300s", route, p.name, p.value, w.Body)
				continue
			}
			require.Equal(t, 400, w.Code, "%s %s=%.60q: %.300s", route, p.name, p.value, w.Body)
			require.Contains(t, w.Body.String(), p.message, route)
			require.Less(t, w.Body.Len(), 64<<10, "%s %s", route, p.name)
		}
		for _, query := range []string{"filter=%zz", "a;b=c", "%", strings.Repeat("&", 1000) + "state=%f"} {
			w := request(s, "GET", route+"?"+query)
			require.Equal(t, 400, w.Code, "%s?%s", route, query)
			require.Contains(t, w.Body.String(), "the query cannot be read", route)
		}
	}
	paths := []string{"0", "-1", "ffffffffffffffff", "10000000000000000", "NaN", "%00", "%ff", "a%2Fb", strings.Repeat("f", 60_000)}
	for _, route := range []string{"/episodes/", "/rules/", "/api/v1/episodes/"} {
		for _, id := range paths {
			w := request(s, "GET", route+id)
			require.Equal(t, 404, w.Code, "%s%.60s", route, id)
			require.NotEmpty(t, w.Body)
		}
	}
	for _, id := range paths {
		require.Equal(t, 404, request(s, "GET", "/api/v1/episodes/"+id+"/timeline").Code, "%.60s", id)
	}
	// Routes without parameters do not mind any.
	for _, route := range []string{"/rules", "/sources", "/status", "/metrics", "/-/ready", "/-/healthy", "/api/v1/rules", "/api/v1/sources", "/api/v1/status/flags"} {
		for _, query := range []string{"limit=-1", "state=odd", "filter=%7B", "a;b", "%zz"} {
			require.Equal(t, 200, request(s, "GET", route+"?"+query).Code, "%s?%s", route, query)
		}
	}
}
