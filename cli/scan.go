package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/inputs"
	"crowsnest/cli/internal/show"
	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/sources/kubelet"
)

// maxSkipped bounds the skipped files that scan names.
const maxSkipped = 20

// scanFlags are the flags of scan.
type scanFlags struct {
	rules        ruleFlags
	labels       []string
	hits         bool
	asides       bool
	untilEOF     bool
	strictLabels bool
	redact       bool
	exitCode     int
	output       *oneOf
}

func newScan(c *cli) *cobra.Command {
	f := scanFlags{output: newOneOf("text", "json", "jsonl")}
	cmd := &cobra.Command{
		Use:   "scan [flags] [FILE|FOLDER|-]...",
		Short: "Find known failures in files, folders, .gz or standard input",
		Long: `Reads recorded logs with the daemon's matcher and engine, in event time, and
prints the alerts that the daemon would have raised. With --hits it prints every
line that matches a rule instead.

Lines may be CRI, docker-json, klog, JSON, logfmt or plain text. scan takes
namespace, pod and container from the path of a log in these layouts: kubelet,
/var/log/containers, must-gather, support bundles, kubectl cluster-info dump,
kind export logs and the tests of Cluster API. In the output of kubectl logs
--prefix it takes them from each line. A label that is unknown, such as the
namespace of a pasted file, satisfies every selector; --strict-labels turns that
off.

Unpack archives first. Input that cannot be read, or that does not look like a
log, is an error.

At the end of the input the clock runs on until every deadline is decided ("no
recovery for two minutes"); --until-eof stops it there.`,
		Example: `  kubectl logs -n capi-system deploy/capi-controller-manager | crowsnest scan
  crowsnest scan /var/log/pods
  crowsnest scan --hits -o jsonl --rules packs/ must-gather/`,
		RunE: func(_ *cobra.Command, args []string) error { return c.scan(f, args) },
	}
	f.rules.add(cmd)
	f.rules.addNamespaces(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.hits, "hits", false, "print every line that matches a rule, instead of alerts")
	flags.BoolVar(&f.asides, "asides", false, "with --hits: also print lines that match only clear or unless")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "an unknown label satisfies no selector")
	flags.BoolVar(&f.redact, "redact", true, "redact secrets in the output")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "exit with this code if an alert fired")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

func (c *cli) scan(f scanFlags, args []string) (err error) {
	labels, err := parseLabels(f.labels)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if isTerminalReader(c.in) {
			return usageErrorf("scan needs a file, a folder, or - for standard input")
		}
		args = []string{inputs.Stdin}
	}
	set, err := f.rules.load(c)
	if err != nil {
		return err
	}
	program, err := matcher.CompileOpen(set)
	if err != nil {
		return fmt.Errorf("compile rules: %w", err)
	}
	find := inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in}
	if !f.hits {
		if find.Parts, err = os.MkdirTemp("", "crowsnest-scan-"); err != nil {
			return fmt.Errorf("create a temporary folder for standard input: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(find.Parts)) }()
	}
	logs, skipped, findErr := inputs.Collect(args, find)
	c.reportSkipped(skipped)
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &hitWriter{w: out, form: f.output.value, asides: f.asides}
	progress := &statusLine{w: c.err, shown: isTerminal(c.err) && !(f.hits && isTerminal(c.out))}
	opt := f.options(hits, progress)
	report, readErr := replay.Scan(set, program, logs, opt)
	progress.clear()
	var writeErr error
	if f.hits {
		writeErr = hits.finish()
	} else {
		writeErr = c.writeAlerts(out, f.output.value, report)
	}
	if err := errors.Join(writeErr, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if f.output.value == "text" {
		c.summarize(report, len(set.Rules), opt.HitsOnly)
	}
	if err := errors.Join(findErr, readErr); err != nil {
		return err
	}
	return c.conclude(report, f.exitCode)
}

// options returns the options of the scan. With --hits the scan writes to hits;
// while it reads it updates progress.
func (f *scanFlags) options(hits *hitWriter, progress *statusLine) replay.ScanOptions {
	opt := replay.ScanOptions{Lenient: !f.strictLabels, UntilEOF: f.untilEOF, Now: time.Now()}
	if f.redact {
		hits.redact = redact.New(nil)
		opt.Redactor = hits.redact
	}
	if f.hits {
		opt.OnHit = hits.add
		opt.HitsOnly = f.exitCode == 0
	}
	opt.OnWait = func(p replay.Progress) {
		if f.hits {
			hits.flushAll()
		}
		if progress.due() {
			progress.show("%d MiB read, %d matched lines", p.Bytes>>20, p.Hits)
		}
	}
	return opt
}

// reportSkipped names the skipped files.
func (c *cli) reportSkipped(skipped []inputs.Skipped) {
	for _, s := range skipped[:min(len(skipped), maxSkipped)] {
		fmt.Fprintf(c.err, "skipped %s: %s\n", s.Path, s.Reason)
	}
	if n := len(skipped) - maxSkipped; n > 0 {
		fmt.Fprintf(c.err, "skipped %d more files that are not logs\n", n)
	}
}

// conclude reports problems of the input and returns the result of the command.
func (c *cli) conclude(report replay.Report, onAlert int) error {
	reportIgnored(c.err, report)
	reportUnstated(c.err, report)
	if err := checkInput(c.err, report); err != nil {
		return err
	}
	if onAlert != 0 && len(report.Alerts) > 0 {
		return exitCode(onAlert)
	}
	return nil
}

// summarize reports on stderr how much was read.
func (c *cli) summarize(r replay.Report, loaded int, hitsOnly bool) {
	if !hitsOnly {
		fmt.Fprintf(c.err, "%d alerts from ", len(r.Alerts))
	}
	fmt.Fprintf(c.err, "%d matched lines; %d lines in %d inputs evaluated with %d rules\n", r.Hits, r.Lines, r.Inputs, loaded)
	if r.Dropped > 0 {
		fmt.Fprintf(c.err, "%d lines could not be evaluated\n", r.Dropped)
	}
}

// scannedAlert is one alert in machine output.
type scannedAlert struct {
	Alert       string            `json:"alert"`
	State       episodes.State    `json:"state"`
	Reason      episodes.Reason   `json:"reason,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"starts_at"`
	FiredAt     time.Time         `json:"fired_at"`
	LastSeen    time.Time         `json:"last_seen"`
	EndsAt      *time.Time        `json:"ends_at,omitempty"`
	Count       int64             `json:"count"`
	Line        string            `json:"line"`
	First       string            `json:"first_line"`
	Fingerprint string            `json:"fingerprint"`
}

func toScanned(a replay.Alert) scannedAlert {
	e := a.Episode
	out := scannedAlert{
		Alert: e.Alert, State: e.State, Reason: e.Reason, Labels: e.Labels, Annotations: e.Annotations,
		StartsAt: e.StartsAt, FiredAt: a.Fired, LastSeen: e.LastSeen, Count: e.Count, Line: e.Line, First: e.First,
		Fingerprint: e.Fingerprint.String(),
	}
	if !e.EndsAt.IsZero() {
		out.EndsAt = &e.EndsAt
	}
	return out
}

func (c *cli) writeAlerts(w io.Writer, form string, r replay.Report) error {
	switch form {
	case "json":
		all := make([]scannedAlert, len(r.Alerts))
		for i, a := range r.Alerts {
			all[i] = toScanned(a)
		}
		return encode(w, map[string]any{"alerts": all}, true)
	case "jsonl":
		for _, a := range r.Alerts {
			if err := encode(w, toScanned(a), false); err != nil {
				return err
			}
		}
		return nil
	}
	style := show.Style{Color: c.colors(c.out)}
	for i, a := range r.Alerts {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := show.Alert(w, a.Episode, style); err != nil {
			return err
		}
	}
	return nil
}

// hitLine is one matched line in machine output.
type hitLine struct {
	Rule       string            `json:"rule"`
	Part       string            `json:"part"`
	File       string            `json:"file"`
	LineNumber int64             `json:"line_number"`
	Time       time.Time         `json:"time"`
	Labels     map[string]string `json:"labels"`
	Vars       map[string]string `json:"vars"`
	Line       string            `json:"line"`
}

// hitWriter writes one object per rule and line. It merges the consecutive hits of
// a line and rule: a step takes precedence over clear and unless.
type hitWriter struct {
	w      *bufio.Writer
	form   string
	asides bool             // write lines that match only clear or unless too
	redact *redact.Redactor // nil: no redaction
	file   string
	line   int64
	group  []matcher.Hit // one per rule, of one line
	err    error
	count  int
}

func (h *hitWriter) add(file string, hit matcher.Hit) {
	if len(h.group) > 0 && (file != h.file || hit.LineNumber != h.line || hit.ID != h.group[0].ID) {
		h.flush()
	}
	h.file, h.line = file, hit.LineNumber
	i := slices.IndexFunc(h.group, func(o matcher.Hit) bool { return o.Rule == hit.Rule })
	switch {
	case i < 0:
		h.group = append(h.group, hit)
	case h.group[i].Part < 0 && hit.Part >= 0:
		h.group[i] = hit
	}
}

// flushAll writes all pending hits, because the next line may take long to arrive.
func (h *hitWriter) flushAll() {
	if h.flush(); h.err == nil {
		h.err = h.w.Flush()
	}
}

func (h *hitWriter) flush() {
	shown, done := "", false // the line, which all hits share
	for _, hit := range h.group {
		if h.err != nil || !h.asides && hit.Part < 0 {
			continue
		}
		if !done {
			done, shown = true, hit.Line
			if h.redact != nil {
				shown = h.redact.String(hit.Line)
			}
		}
		h.err = h.write(hit, shown)
	}
	h.group = h.group[:0]
}

// write writes a hit with its redacted line.
func (h *hitWriter) write(hit matcher.Hit, shown string) error {
	line := hitLine{
		Rule: hit.Rule.Alert, Part: hit.Part.Name(hit.Rule), File: h.file, LineNumber: hit.LineNumber,
		Time: hit.Time.UTC(), Labels: hit.Labels, Vars: map[string]string{}, Line: shown,
	}
	for i, name := range hit.Rule.CapturedNames {
		if i < len(hit.Values) && hit.Values[i] != "" {
			line.Vars[name] = hit.Values[i]
		}
	}
	if h.redact != nil {
		for name, v := range line.Vars {
			line.Vars[name] = h.redact.Part(hit.Line, line.Line, v)
		}
	}
	h.count++
	switch h.form {
	case "text":
		_, err := fmt.Fprintf(h.w, "%s:%d: %s %s: %s\n", line.File, line.LineNumber, line.Rule, line.Part, redact.Sanitise(line.Line))
		return err
	case "json":
		if _, err := io.WriteString(h.w, separator(h.count)); err != nil {
			return err
		}
	}
	return encode(h.w, line, false)
}

// separator returns the text before the nth object of a list, counted from 1.
func separator(n int) string {
	if n == 1 {
		return "[\n"
	}
	return ","
}

func (h *hitWriter) finish() error {
	h.flush()
	if h.err != nil || h.form != "json" {
		return h.err
	}
	end := "]\n"
	if h.count == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(h.w, end)
	return err
}

// encode writes a value as JSON with a trailing newline.
func encode(w io.Writer, v any, pretty bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if pretty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// parseLabels parses name=value pairs.
func parseLabels(pairs []string) (matcher.Labels, error) {
	labels := matcher.Labels{}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usageErrorf("--label %q is not of the form name=value", p)
		}
		labels[name] = strings.Trim(value, `"`)
	}
	return labels, nil
}
