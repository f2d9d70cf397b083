package web

import (
	_ "embed"
	"net/http"
)

// openAPI describes the API. A test generates it from the types of the answers and checks it
// against the handlers. With UPDATE_SNAPSHOTS=1, the test writes the file.
//
//go:embed openapi.json
var openAPI []byte

// OpenAPI returns the OpenAPI 3.1 document of the API, as JSON. The caller must not change it.
func OpenAPI() []byte { return openAPI }

func (s *Server) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(openAPI) // the client may have disconnected
}
