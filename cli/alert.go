package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/component"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/redact"
	"crowsnest/rules"
	"crowsnest/sinks/alertmanager"
)

// testLabel is the label that marks a test alert, so that routes and people can recognize it.
const testLabel = "crowsnest_test"

type alertTestFlags struct {
	config string
	urls   []string
	labels []string
	lasts  time.Duration
	rules  ruleFlags
}

func newAlert(c *cli) *cobra.Command {
	return newParent("alert", "Send a test alert through every configured receiver", newAlertTest(c))
}

func newAlertTest(c *cli) *cobra.Command {
	var f alertTestFlags
	cmd := &cobra.Command{
		Use:   "test [flags] RULE",
		Short: "Send a test alert of a rule to every configured Alertmanager",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.alertTest(cmd.Context(), f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config.file", config.DefaultFile, "configuration `FILE`")
	flags.StringArrayVar(&f.urls, "alertmanager", nil, "base `URL` of an Alertmanager, instead of those of the configuration (repeatable)")
	flags.StringArrayVar(&f.labels, "label", nil, "value of a key, or an additional label, `name=value` (repeatable)")
	flags.Var(periodVar(&f.lasts, 5*time.Minute, year), "duration", "time after which the alert resolves by itself")
	f.rules.add(cmd)
	return cmd
}

func (c *cli) alertTest(ctx context.Context, f alertTestFlags, name string) error {
	own, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	receivers, set, err := c.alertReceivers(f)
	if err != nil {
		return err
	}
	rule, err := show.FindRule(set, name)
	if err != nil {
		return err
	}
	now := time.Now()
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	failed := 0
	var lookups []error
	for _, am := range receivers {
		alert := testAlert(rule, config.MergeLabels(am.ExternalLabels, own), now, f.lasts)
		body, err := json.Marshal([]postedAlert{alert})
		if err != nil {
			return err
		}
		targets, err := am.Targets(ctx)
		if err != nil {
			lookups = append(lookups, err)
		}
		for _, t := range targets {
			answer, err := postAlert(ctx, am, t, body)
			if err != nil {
				failed++
				answer = err.Error()
			}
			fmt.Fprintf(w, "%s\t%s\n", t.Name, answer)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d Alertmanagers did not accept the alert", failed)
	}
	if len(lookups) > 0 {
		return fmt.Errorf("look up Alertmanagers: %w", errors.Join(lookups...))
	}
	return nil
}

func (c *cli) alertReceivers(f alertTestFlags) ([]alertmanager.Config, *rules.Set, error) {
	if len(f.urls) > 0 {
		am := alertmanager.Config{URLs: f.urls}
		if err := am.Validate(); err != nil {
			return nil, nil, usageErrorf("--alertmanager: %w", err)
		}
		set, err := f.rules.loadWithTests(c)
		return []alertmanager.Config{am}, set, err
	}
	cfg, err := config.Read(f.config)
	if err != nil {
		return nil, nil, err
	}
	var receivers []alertmanager.Config
	for _, am := range component.SettingsOf[alertmanager.Config](cfg.Sinks) {
		cfg.Global.ApplyTo(&am.ExternalLabels, &am.ExternalURL)
		receivers = append(receivers, *am)
	}
	if len(receivers) == 0 {
		return nil, nil, fmt.Errorf("%s configures no Alertmanager; add sinks.alertmanager or use --alertmanager", f.config)
	}
	if len(f.rules.paths) > 0 {
		set, err := f.rules.loadWithTests(c)
		return receivers, set, err
	}
	out, err := loader.New().LoadInitial(cfg)
	return receivers, out.Set, err
}

type postedAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

func testAlert(r *rules.Rule, given map[string]string, now time.Time, lasts time.Duration) postedAlert {
	by, sample := map[string]string{}, sampleAlert(r)
	for _, name := range r.By {
		by[name] = cmp.Or(given[name], sample[name], "test")
	}
	labels := map[string]string{}
	maps.Copy(labels, given)
	maps.Copy(labels, by)
	for _, l := range r.Labels {
		labels[l.Name], _ = l.Template.Execute(rules.TemplateData{Labels: by})
	}
	labels["alertname"], labels["severity"], labels["resolves"], labels[testLabel] = r.Alert, string(r.Severity), r.Resolves(), "true"
	maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })

	data := rules.TemplateData{Labels: labels, Vars: by, Value: int64(max(r.Count, 1)), Line: "a test, not a log line"}
	text := map[string]string{"runbook_url": r.Remediation.RunbookURL}
	neutral := func(s string) string { return redact.DefuseLinks(redact.Sanitise(s)) }
	text["remediation"], _ = r.Remediation.Text(data, neutral)
	for _, a := range r.Annotations {
		text[a.Name], _ = a.Template.ExecuteText(data, neutral)
	}
	text["summary"] = strings.TrimSpace("TEST, nothing is broken: " + text["summary"])
	maps.DeleteFunc(text, func(_, v string) bool { return v == "" })
	return postedAlert{Labels: labels, Annotations: text, StartsAt: now.UTC(), EndsAt: now.Add(lasts).UTC()}
}

func sampleAlert(r *rules.Rule) map[string]string {
	for _, t := range r.Tests {
		for _, p := range t.Expect {
			for _, a := range p.Firing {
				return config.MergeLabels(t.Stream, a.Labels)
			}
		}
	}
	return nil
}

func postAlert(ctx context.Context, am alertmanager.Config, to alertmanager.Target, body []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(am.Timeout, 10*time.Second))
	defer cancel()
	client, err := am.HTTP.NewClient("crowsnest", commonconfig.WithDialContextFunc(to.DialContext))
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.URL, "/")+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("no answer in time")
		}
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(res.Status + " " + redact.Sanitise(strings.Join(strings.Fields(string(answer)), " ")))
	if res.StatusCode/100 != 2 {
		return "", errors.New(text)
	}
	return "accepted: " + text, nil
}
