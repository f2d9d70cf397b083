package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
)

// maxToolCalls is the maximum number of requests to /mcp that are read or answered at the same time.
const maxToolCalls = 4

// Tools are the queries that language models can make over HTTP. The limits of all other clients apply to these
// queries. Tools are safe for concurrent use.
type Tools struct {
	server *Server
	api    http.Handler
}

// Get returns the data of an endpoint of the API, such as "alerts".
func (t Tools) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return fetchFrom(ctx, t.api, path+"?"+query.Encode())
}

// Address returns the address of the pages for people.
func (t Tools) Address() string { return cmp.Or(t.server.view.Status().ExternalURL, "this address") }

// ScanLines scans lines of a log as the page Scan does, with the same limits.
func (t Tools) ScanLines(ctx context.Context, lines string, labels map[string]string) (Scanned, error) {
	req := ScanRequest{Lines: lines}
	if len(labels) > 0 {
		req.Labels = formatSelector(labels)
	}
	out, err := t.server.scanner.runRequests(ctx.Done(), req)
	if err == nil && out.Scan == nil {
		err = errors.New("the lines contain no text")
	}
	if err != nil {
		return Scanned{}, err
	}
	return *out.Scan, nil
}

// serveMCP serves the Model Context Protocol if the configuration allows it. api serves the API.
func (s *Server) serveMCP(api http.Handler) http.HandlerFunc {
	handler := sync.OnceValue(func() http.Handler { return s.opt.MCP(Tools{s, api}) })
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.view.Links().MCP {
			http.Error(w, "MCP over HTTP is off: set web: {mcp: true} in the configuration", http.StatusForbidden)
			return
		}
		handler().ServeHTTP(w, r)
	}
}
