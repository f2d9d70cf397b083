// Package apicheck compares answers over HTTP with an OpenAPI document.
package apicheck

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"
	"github.com/stretchr/testify/require"
)

// Document is an OpenAPI document.
type Document struct {
	t     *testing.T
	valid validator.Validator
	// Operations are the operations, such as "GET /api/v1/alerts", sorted.
	Operations []string
}

// New reads a document and requires that it is a valid one of OpenAPI 3.1.
func New(t *testing.T, document []byte) *Document {
	t.Helper()
	parsed, err := libopenapi.NewDocument(document)
	require.NoError(t, err)
	valid, errs := validator.NewValidator(parsed, config.WithFormatAssertions())
	require.Empty(t, errs)
	_, problems := valid.ValidateDocument()
	require.Empty(t, texts(problems))
	d := &Document{t: t, valid: valid}
	var in struct {
		OpenAPI string
		Paths   map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(document, &in))
	require.True(t, strings.HasPrefix(in.OpenAPI, "3.1."))
	for path, methods := range in.Paths {
		for method := range methods {
			d.Operations = append(d.Operations, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(d.Operations)
	return d
}

// Check requires that the document allows a request, if its answer is a success, and the
// answer. The caller still owns the bodies.
func (d *Document) Check(req *http.Request, code int, head http.Header, body []byte) {
	d.t.Helper()
	if code < 300 {
		_, problems := d.valid.ValidateHttpRequest(req)
		require.Empty(d.t, texts(problems), "request %s %s", req.Method, req.URL)
	}
	res := &http.Response{StatusCode: code, Header: head, Body: io.NopCloser(bytes.NewReader(body)), Request: req}
	_, problems := d.valid.ValidateHttpResponse(req, res)
	require.Empty(d.t, texts(problems), "answer %d to %s %s: %.2000s", code, req.Method, req.URL, body)
}

func texts(all []*errors.ValidationError) (out []string) {
	for _, e := range all {
		text := e.Message + ": " + e.Reason
		for _, s := range e.SchemaValidationErrors {
			text += "; " + s.FieldPath + " " + s.Reason
		}
		out = append(out, text)
	}
	return out
}
