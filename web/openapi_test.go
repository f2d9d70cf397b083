package web

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/rules"
)

// operation describes one route for openapi.json.
type operation struct {
	summary string
	params  []param
	data    any    // of the envelope; nil: the answer has another form
	text    string // media type of an answer without an envelope
	body    any    // JSON of the request; nil: none
	errors  []int  // status codes with an answer in the error envelope
	plain   map[int]string
}

type param struct {
	name, in, text string
	schema         map[string]any
	many           bool
	required       bool
}

func inQuery(name, text string, schema map[string]any) param {
	return param{name: name, in: "query", text: text, schema: schema}
}

func stringOf(pairs ...any) map[string]any {
	out := map[string]any{"type": "string"}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

var (
	fingerprintSchema = stringOf("pattern", "^[0-9a-f]{16}$")
	fingerprintPath   = param{name: "fingerprint", in: "path", required: true, schema: fingerprintSchema, text: "Fingerprint of an alert: with or without external labels."}
	rulePath          = param{name: "name", in: "path", required: true, schema: stringOf(), text: "Name of the rule."}
	unknownPath       = param{name: "fingerprint", in: "path", required: true, schema: stringOf(), text: "Fingerprint of the failure."}
	filterParams      = []param{
		{name: "filter", in: "query", many: true, schema: stringOf("maxLength", maxFilters), text: `Matchers in Alertmanager's syntax, such as {severity="critical",namespace=~"team-.*"}, or words that name, labels, line or summary contain. External labels count. All must match.`},
		{name: "match[]", in: "query", many: true, schema: stringOf("maxLength", maxFilters), text: "Matchers, as in filter."},
		{name: "fingerprint", in: "query", many: true, schema: fingerprintSchema, text: "Only alerts with one of these fingerprints, with or without external labels."},
	}
	stateParam = param{name: "state", in: "query", many: true, text: "Only these states; held is on hold.", schema: stringOf("enum", selectableStates)}
	timeText   = "RFC 3339, a day such as 2026-03-11, seconds since 1970, or a duration before now such as 7d."
)

// operations describes all routes but those of pages and of pprof.
func operations() map[string]operation {
	busy := map[int]string{503: "Too many requests at once."}
	api := func(summary string, data any, params ...param) operation {
		op := operation{summary: summary, data: data, params: params, plain: busy}
		for _, p := range params {
			switch code := 400; {
			case p.in == "path":
				code = 404
				fallthrough
			case !slices.Contains(op.errors, code):
				op.errors = append(op.errors, code)
			}
		}
		return op
	}
	status := func(summary string, data any) operation { return operation{summary: summary, data: data} }
	past := slices.Concat(filterParams, []param{
		inQuery("q", "Words, separated by spaces: name, labels or summary contain all of them.", stringOf("maxLength", maxWords)),
		inQuery("from", "Only alerts that were open at this time or later: "+timeText, stringOf()),
		inQuery("to", "Only alerts that began before this time: "+timeText, stringOf()),
		inQuery("limit", "Maximum number of episodes; default 100.", map[string]any{"type": "integer", "minimum": 0, "maximum": maxPast}),
		inQuery("after", "The value of next of the previous answer.", stringOf("pattern", "^-?[0-9]+-[0-9a-f]{16}$")),
	})
	return map[string]operation{
		"GET /api/v1/alerts":                          api("Open alerts, in the form of Prometheus' API", Alerts{}, append(slices.Clone(filterParams), stateParam)...),
		"GET /api/v1/episodes":                        api("Open and recently resolved episodes", Episodes{}, append(slices.Clone(filterParams), stateParam)...),
		"GET /api/v1/episodes/{fingerprint}":          api("The newest episode of an alert, open or remembered, with the newest answer of each receiver", EpisodeDetail{}, fingerprintPath),
		"GET /api/v1/episodes/{fingerprint}/timeline": api("What happened in the newest episode of an alert, and what comes next", Timeline{}, fingerprintPath),
		"GET /api/v1/history":                         api("Ended alerts, the newest start first; the last 30 days, and the noisy rules", History{}, past...),
		"GET /api/v1/counts":                          api("Alerts by severity, state, cluster and namespace, as the page of alerts counts them", Counts{}, append(slices.Clone(filterParams), stateParam)...),
		"GET /api/v1/runbooks/{name}":                 api("The runbook of a rule", Runbook{}, rulePath),
		"GET /api/v1/stream": {
			summary: "Changes of episodes as server-sent events: hello at the start, change with what changed, and alive every five seconds. The data of change is a Change.",
			text:    "text/event-stream", plain: busy,
		},
		"POST /api/v1/scan":                      {summary: "Scans a log with the rules in force, or tries other rules on its lines; nothing is stored", data: ScanResult{}, body: ScanRequest{}, errors: []int{400}, plain: map[int]string{403: "The request is from another site.", 503: "Too many requests at once."}},
		"GET /api/v1/rules":                      api("Loaded rules with their state, by pack", Groups{}),
		"GET /api/v1/unknown":                    api("Failures that no rule describes", Unknown{}),
		"GET /api/v1/unknown/{fingerprint}/rule": api("A pack with a rule and tests for a failure that no rule describes", RulePack{}, unknownPath),
		"GET /api/v1/sources":                    api("Sources and receivers", SourceList{}),
		"GET /api/v1/status/buildinfo":           status("Version of the program", BuildInfo{}),
		"GET /api/v1/status/config":              status("Effective configuration, without secrets", ConfigYAML{}),
		"GET /api/v1/status/flags":               status("Flags of the process", map[string]string{}),
		"GET /api/v1/status/runtimeinfo":         status("State of the process", RuntimeInfo{}),
		"GET /api/v1/openapi.json":               {summary: "This document", text: "application/json"},
		"GET /metrics":                           {summary: "Metrics of Prometheus", text: "text/plain", plain: busy},
		"GET /-/healthy":                         {summary: "Liveness probe", text: "text/plain", plain: map[int]string{503: "A restart may help; the body says why."}},
		"GET /-/ready":                           {summary: "Readiness probe; the body lists what is missing", text: "text/plain", plain: map[int]string{503: "Not ready; the body says why."}},
		"POST /-/reload":                         {summary: "Loads the rules again; needs --web.enable-lifecycle", text: "text/plain", plain: map[int]string{400: "Some packs were refused; the body says why.", 403: "It is off, or the request is from another site."}},
	}
}

// enums are the values of named types.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[episodes.State](): {"pending", "firing", "resolved", "unwatched", "dropped"},
	reflect.TypeFor[episodes.Reason](): {
		episodes.ReasonClear, episodes.ReasonQuiet, episodes.ReasonExpired, episodes.ReasonMuted, episodes.ReasonRemoved,
		episodes.ReasonIdentity, episodes.ReasonPodDeleted, episodes.ReasonDisplaced,
	},
	reflect.TypeFor[rules.Severity](): {rules.SeverityCritical, rules.SeverityWarning, rules.SeverityInfo},
}

// document makes openapi.json.
func document(t *testing.T) []byte {
	t.Helper()
	schemas := map[string]any{}
	r := jsonschema.Reflector{ExpandedStruct: false, Anonymous: true, Mapper: func(of reflect.Type) *jsonschema.Schema {
		if values := enums[of]; values != nil {
			return &jsonschema.Schema{Type: "string", Enum: values}
		}
		return nil
	}}
	require.NoError(t, r.AddGoComments("crowsnest/web", "."))
	require.NoError(t, r.AddGoComments("crowsnest/web", "../episodes/history"))
	paths := map[string]map[string]any{}
	for name, op := range operations() {
		method, path, _ := strings.Cut(name, " ")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = op.document(t, &r, schemas)
	}
	schemas["Error"] = map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"status", "errorType", "error"},
		"properties": map[string]any{
			"status": map[string]any{"const": "error"}, "errorType": stringOf("enum", []string{"bad_data", "not_found"}),
			"error": stringOf("description", "What is wrong and how to fix it, for people."),
		},
	}
	b, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "crowsnest", "version": "v1", "license": map[string]any{"name": "Apache 2.0", "identifier": "Apache-2.0"},
			"description": "The HTTP API of a running daemon. Clients must ignore fields that they do not know: later versions add some. " +
				"The daemon itself has no authentication unless --web.config.file sets it. Every route may also answer 421: the name in the request is not allowed; see --web.allowed-host.",
		},
		"servers": []any{map[string]any{"url": "/"}},
		"paths":   paths, "components": map[string]any{"schemas": schemas},
	}, "", "  ")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(b), "#/$defs/", "#/components/schemas/")
	return append([]byte(text), '\n')
}

func (op *operation) document(t *testing.T, r *jsonschema.Reflector, schemas map[string]any) map[string]any {
	t.Helper()
	answer := func(text, media string, schema any) map[string]any {
		return map[string]any{"description": text, "content": map[string]any{media: map[string]any{"schema": schema}}}
	}
	answers := map[string]any{}
	switch {
	case op.text == "application/json":
		answers["200"] = answer("An OpenAPI 3.1 document.", op.text, map[string]any{"type": "object"})
	case op.text != "":
		answers["200"] = answer("Text for people or Prometheus.", op.text, stringOf())
	default:
		answers["200"] = answer("The answer.", "application/json", map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"status", "data"},
			"properties": map[string]any{"status": map[string]any{"const": "success"}, "data": reflected(t, r, op.data, schemas)},
		})
	}
	for _, code := range op.errors {
		text := map[int]string{400: "The request is wrong.", 404: "There is no such thing."}[code]
		answers[strconv.Itoa(code)] = answer(text, "application/json", map[string]any{"$ref": "#/components/schemas/Error"})
	}
	for code, text := range op.plain {
		answers[strconv.Itoa(code)] = answer(text, "text/plain", stringOf())
	}
	out := map[string]any{"summary": op.summary, "responses": answers}
	var params []any
	for _, p := range op.params {
		schema := p.schema
		if p.many {
			schema = map[string]any{"type": "array", "items": schema, "maxItems": maxMatchers}
		}
		x := map[string]any{"name": p.name, "in": p.in, "description": p.text, "schema": schema}
		if p.required {
			x["required"] = true
		}
		params = append(params, x)
	}
	if params != nil {
		out["parameters"] = params
	}
	if op.body != nil {
		out["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": reflected(t, r, op.body, schemas)}}}
	}
	return out
}

// reflected returns the schema of a type and adds the schemas that it refers to.
func reflected(t *testing.T, r *jsonschema.Reflector, of any, schemas map[string]any) any {
	t.Helper()
	s := r.Reflect(of)
	s.Version = ""
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(b, &out))
	if defs, ok := out["$defs"].(map[string]any); ok {
		for name, schema := range defs {
			flatten(schema)
			require.True(t, schemas[name] == nil || reflect.DeepEqual(schemas[name], schema), "two types have the name %s", name)
			schemas[name] = schema
		}
		delete(out, "$defs")
	}
	return out
}

// flatten puts descriptions on one line.
func flatten(v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, inner := range x {
			if text, ok := inner.(string); ok && k == "description" {
				x[k] = strings.Join(strings.Fields(text), " ")
			} else {
				flatten(inner)
			}
		}
	case []any:
		for _, inner := range x {
			flatten(inner)
		}
	}
}

func TestOpenAPIIsUpToDate(t *testing.T) {
	want := document(t)
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	require.Equal(t, string(want), string(OpenAPI()), "run UPDATE_SNAPSHOTS=1 go test ./web")
}

// documented reports whether a route belongs into openapi.json: it is none of the pages, of
// pprof, and not the answer for paths that do not exist.
func documented(pattern string) bool {
	_, path, _ := strings.Cut(pattern, " ")
	return path != "" && (strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/-/") || path == "/metrics")
}

func TestOpenAPIHasEveryRoute(t *testing.T) {
	s := newTestServer(t, exampleView(), Options{Pprof: true})
	var routes []string
	for _, p := range s.routes {
		if documented(p) {
			routes = append(routes, p)
		}
	}
	require.Equal(t, slices.Sorted(slices.Values(routes)), slices.Sorted(maps.Keys(operations())))
}
