//go:build e2e

package texts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// inbox holds what the receivers got, by their name.
type inbox struct {
	mu  sync.Mutex
	got map[string]string
}

func (i *inbox) put(name, text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.got[name] == "" {
		i.got[name] = text
	}
}

func (i *inbox) all() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := map[string]string{}
	for k, v := range i.got {
		out[k] = v
	}
	return out
}

// ServeHTTP accepts a message for the receiver that the path begins with.
func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	i.put(name, string(body))
	switch name {
	case "slack":
		fmt.Fprint(w, "ok")
	case "teams":
		fmt.Fprint(w, "1")
	default:
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{"status": "success"}`)
	}
}

// receiveMail serves SMTP until the listener is closed.
func (i *inbox) receiveMail(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		i.session(conn)
	}
}

func (i *inbox) session(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	fmt.Fprint(conn, "220 test\r\n")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasPrefix(line, "DATA") {
			fmt.Fprint(conn, "250 ok\r\n")
			if strings.HasPrefix(line, "QUIT") {
				return
			}
			continue
		}
		fmt.Fprint(conn, "354 go on\r\n")
		var text strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil || line == ".\r\n" {
				break
			}
			text.WriteString(strings.TrimPrefix(line, "."))
		}
		i.put("email", text.String())
		fmt.Fprint(conn, "250 ok\r\n")
	}
}

// localConfig returns the example configuration with a route to every receiver, all of
// them on this machine.
func localConfig(t *testing.T, base, smtp string) string {
	t.Helper()
	secrets := t.TempDir()
	for name, text := range map[string]string{
		"slack-url": base + "/slack", "pagerduty-key": "key", "opsgenie-key": "key", "teams-url": base + "/teams", "smtp-password": "x",
		"webhook-url": base + "/webhook", "dead-mans-switch-url": base + "/switch",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600))
	}
	text, err := os.ReadFile(snippets + "alertmanager.yml")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(bytes.ReplaceAll(text, []byte("/etc/alertmanager/secrets"), []byte(secrets)), &config))
	templates, err := filepath.Abs(snippets + "crowsnest.tmpl")
	require.NoError(t, err)
	config["templates"] = []string{templates}
	config["global"] = map[string]any{"pagerduty_url": base + "/pagerduty", "opsgenie_api_url": base + "/opsgenie/", "smtp_require_tls": false}
	var routes []any
	for _, r := range config["receivers"].([]any) {
		r := r.(map[string]any)
		routes = append(routes, map[string]any{"receiver": r["name"], "continue": true})
		if r["name"] == "email" {
			r["email_configs"].([]any)[0].(map[string]any)["smarthost"] = smtp
		}
	}
	config["route"] = map[string]any{"receiver": "slack", "group_by": []string{"alertname"}, "group_wait": "100ms", "routes": routes}
	out, err := yaml.Marshal(config)
	require.NoError(t, err)
	return string(out)
}

// A real Alertmanager accepts the example configuration as it is, except for the files of
// secrets, and delivers an alert of a shipped rule to every receiver.
func TestE2ESnippets(t *testing.T) {
	box := &inbox{got: map[string]string{}}
	server := httptest.NewServer(box)
	t.Cleanup(server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go box.receiveMail(l)
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{
		Config: localConfig(t, server.URL, l.Addr().String()), Args: []string{"--web.external-url=https://alertmanager.example.org", "--web.route-prefix=/"},
	})
	a := incidents(t, shipped(t), []string{"x-1"})["VClusterControllerManagerLeaseLost"][0]
	a.Labels["cluster"] = "prod-1"
	body, err := json.Marshal([]posted{a})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, am.URL+"/api/v2/alerts", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, wait.NoError(context.Background(), time.Minute, func() error {
		if n := len(box.all()); n < 7 {
			return fmt.Errorf("%d receivers were notified: %v", n, box.all())
		}
		return nil
	}))

	title := "[CRITICAL] prod-1: " + a.Annotations["summary"]
	got := box.all()
	field := func(name string, path ...any) string {
		t.Helper()
		var v any
		require.NoError(t, json.Unmarshal([]byte(got[name]), &v))
		for _, p := range path {
			switch p := p.(type) {
			case string:
				v = v.(map[string]any)[p]
			case int:
				v = v.([]any)[p]
			}
		}
		return fmt.Sprint(v)
	}
	require.Equal(t, title, field("slack", "attachments", 0, "title"))
	require.Equal(t, title, field("pagerduty", "payload", "summary"))
	require.Equal(t, "critical", field("pagerduty", "payload", "severity"))
	require.Equal(t, title, field("opsgenie", "message"))
	require.Equal(t, "P1", field("opsgenie", "priority"))
	require.Equal(t, title, field("teams", "attachments", 0, "content", "body", 0, "text"))
	require.Equal(t, a.GeneratorURL, field("webhook", "alerts", 0, "generatorURL"))
	subject, text := mailOf(t, got["email"])
	require.Equal(t, title, subject)
	for name, text := range map[string]string{
		"slack": field("slack", "attachments", 0, "text"), "pagerduty": field("pagerduty", "payload", "custom_details", "what to do"),
		"opsgenie": field("opsgenie", "description"), "teams": field("teams", "attachments", 0, "content", "body", 1, "text"), "email": text,
	} {
		for step := range strings.SplitSeq(a.Annotations["remediation"], "\n") {
			require.Contains(t, text, step, name)
		}
		require.Equal(t, a.Labels, silenced(t, text), name)
		t.Logf("== %s\n%s", name, text)
	}
}

// mailOf returns the subject of a mail and its plain text.
func mailOf(t *testing.T, raw string) (subject, text string) {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(raw))
	require.NoError(t, err)
	subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	require.NoError(t, err)
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
	require.NoError(t, err)
	b, err := io.ReadAll(quotedprintable.NewReader(part))
	require.NoError(t, err)
	return subject, string(b)
}
