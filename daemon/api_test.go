package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/apicheck"
	"crowsnest/web"
)

// What a running daemon answers has the form that its own document states: with nothing, an
// open alert, and one that ended.
func TestAnswersAreAsDocumented(t *testing.T) {
	s := newShip(t)
	s.start()
	_, served := s.get("/api/v1/openapi.json")
	require.Equal(t, string(web.OpenAPI()), served)
	doc := apicheck.New(t, web.OpenAPI())
	check := func(path string) string {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, path, nil)
		code, body := s.get(path)
		head := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
		doc.Check(req, code, head, []byte(body))
		return body
	}
	all := func() {
		t.Helper()
		for _, op := range doc.Operations {
			path, get := strings.CutPrefix(op, "GET /api/")
			if get && !strings.Contains(path, "{") && path != "v1/stream" { // a stream does not end
				check("/api/" + path)
			}
		}
	}
	all()
	s.log("vc-0", "text of a")
	s.eventually(func() bool { return len(s.am.firing("A")) == 1 }, "the alert arrives")
	all()
	_, print, _ := strings.Cut(check("/api/v1/episodes?filter=alertname%3DA"), `"fingerprint":"`)
	print = print[:16]
	check("/api/v1/episodes/" + print)
	check("/api/v1/episodes/" + print + "/timeline")
	s.log("vc-0", "recovered")
	s.eventually(func() bool { return s.past("").Total == 1 }, "it ends")
	all()
	check("/api/v1/episodes/" + print + "/timeline")
	check("/api/v1/history?q=%22")
	check("/api/v1/episodes/0000000000000000")
}
