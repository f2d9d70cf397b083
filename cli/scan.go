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

// maxSkipped is how many files of a folder that were passed over scan names.
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
		Long: `Reads recorded logs with the production matcher and engine, in event time, and
prints the alerts that they would have raised, or with --hits every line that
matches a rule.

Lines may be CRI, docker-json, klog, JSON, logfmt or plain. The path of a log
states its namespace, pod and container in the layouts of the kubelet, of
/var/log/containers, of must-gather, of support bundles, of kubectl cluster-info
dump, of kind export logs and of the tests of Cluster API, and each line does in
the output of kubectl logs --prefix. A label that nothing states satisfies every
selector, since a pasted file knows no namespace; --strict-labels turns that off.

Archives have to be unpacked first. What cannot be read is an error that names
it, and so is input in which nothing looks like a line of a log.

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
	flags.BoolVar(&f.hits, "hits", false, "print every line that matches a rule instead of alerts")
	flags.BoolVar(&f.asides, "asides", false, "with --hits: also lines that only clear or mute")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "stop the clock at the end of the input")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "a label that is not stated satisfies no selector")
	flags.BoolVar(&f.redact, "redact", true, "hide secrets in what is printed")
	flags.Var(numberVar(&f.exitCode, 0, 0, 255), "exit-code", "exit with this code when an alert fired")
	flags.VarP(f.output, "output", "o", "form of the output")
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
			return fmt.Errorf("make a folder for parts of standard input: %w", err)
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

// options are those of the scan. hits is written to if lines are wanted instead of
// alerts, progress while the input is read.
func (f *scanFlags) options(hits *hitWriter, progress *statusLine) replay.ScanOptions {
	opt := replay.ScanOptions{Lenient: !f.strictLabels, UntilEOF: f.untilEOF, Now: time.Now()}
	if f.redact {
		hits.redact = redact.New(nil)
		opt.Redactor = hits.redact
	}
	if f.hits {
		opt.OnHit = hits.take
		opt.HitsOnly = f.exitCode == 0
	}
	opt.OnWait = func(p replay.Progress) {
		if f.hits {
			hits.settle()
		}
		if progress.due() {
			progress.show("%d MiB read, %d matched lines", p.Bytes>>20, p.Hits)
		}
	}
	return opt
}

// reportSkipped names the files that were passed over.
func (c *cli) reportSkipped(skipped []inputs.Skipped) {
	for _, s := range skipped[:min(len(skipped), maxSkipped)] {
		fmt.Fprintf(c.err, "skipped %s: %s\n", s.Path, s.Reason)
	}
	if n := len(skipped) - maxSkipped; n > 0 {
		fmt.Fprintf(c.err, "skipped %d more files that are no logs\n", n)
	}
}

// conclude reports what the input lacked, and returns the outcome of the command.
func (c *cli) conclude(report replay.Report, onAlert int) error {
	tellIgnored(c.err, report)
	reportUnstated(c.err, report)
	if err := judgeReading(c.err, report); err != nil {
		return err
	}
	if onAlert != 0 && len(report.Alerts) > 0 {
		return exitCode(onAlert)
	}
	return nil
}

// summarize tells on stderr what was looked at.
func (c *cli) summarize(r replay.Report, loaded int, hitsOnly bool) {
	if !hitsOnly {
		fmt.Fprintf(c.err, "%d alerts from ", len(r.Alerts))
	}
	fmt.Fprintf(c.err, "%d matched lines; %d lines in %d inputs looked at with %d rules\n", r.Hits, r.Lines, r.Inputs, loaded)
	if r.Dropped > 0 {
		fmt.Fprintf(c.err, "%d lines could not be looked at\n", r.Dropped)
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

// hitWriter writes one object per rule and line. The hits of one line come one
// after the other; the ones of a rule are joined: its first step names the part,
// before clear and unless.
type hitWriter struct {
	w      *bufio.Writer
	form   string
	asides bool             // lines that only clear or mute are written too
	redact *redact.Redactor // nil: secrets are shown
	file   string
	line   int64
	group  []matcher.Hit // one per rule, of one line
	err    error
	count  int
}

func (h *hitWriter) take(file string, hit matcher.Hit) {
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

// settle writes out what was taken: reading may wait for the next line.
func (h *hitWriter) settle() {
	if h.flush(); h.err == nil {
		h.err = h.w.Flush()
	}
}

func (h *hitWriter) flush() {
	shown, done := "", false // of the line that they share
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

// write writes a hit whose line is shown so.
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

// separator stands before the object of that number, from 1, of a list.
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

// encode writes a value as JSON with a newline behind it.
func encode(w io.Writer, v any, pretty bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if pretty {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// parseLabels reads name=value pairs.
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
