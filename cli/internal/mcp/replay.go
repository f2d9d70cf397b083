package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"crowsnest/casefile"
	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// Bounds of a call, in bytes.
const (
	maxLines = 1 << 20
	maxRules = 256 << 10
)

// nameOfLines names the lines of a call in its answer.
const nameOfLines = "lines of the call"

type replayIn struct {
	Lines  string            `json:"lines" jsonschema:"Lines of one log, as they were written, with their timestamps; at most 1 MiB. The lines of kubectl logs --prefix are kept apart."`
	Labels map[string]string `json:"labels,omitempty" jsonschema:"Labels of the log, such as namespace, pod, container. Those that are absent satisfy every selector."`
	Rules  string            `json:"rules,omitempty" jsonschema:"A pack as YAML to try instead of the local packs; at most 256 KiB."`
}

// Replayed is what a rule did.
type Replayed struct {
	Rule     string `json:"rule"`
	Lines    int64  `json:"lines" jsonschema:"Matching lines."`
	Episodes int    `json:"episodes" jsonschema:"Failures that began, whether they became certain or not."`
	Alerts   int    `json:"alerts" jsonschema:"Alerts that would have fired."`
}

// Finding is a failure that lines show and a rule describes, and that would be no alert.
type Finding struct {
	Reason  string   `json:"reason" jsonschema:"too_short, too_few, waiting (for another line, or for proof that there is none), elsewhere (perhaps recovered in another file), recovered or untrusted (the namespace of the lines)."`
	Missing string   `json:"missing" jsonschema:"What an alert needs beyond what the lines show."`
	Also    []string `json:"also,omitempty" jsonschema:"Further rules about the same lines or object."`
	Alert   Alert    `json:"alert" jsonschema:"What the alert would be."`
}

// Complaint is one that no rule describes.
type Complaint struct {
	Where   string `json:"where"`
	Pattern string `json:"pattern" jsonschema:"Its text without what differs from line to line."`
	Why     string `json:"why" jsonschema:"new, persists, repeats, or seen (once, in a log that is too short to judge it)."`
	Count   int64  `json:"count" jsonschema:"Number of lines, at least."`
	Example string `json:"example"`
}

type replayOut struct {
	Verdict  string      `json:"verdict"`
	Alerts   []Alert     `json:"alerts" items:"1000" jsonschema:"Alerts that the lines would have fired. Nothing was sent, and nothing is open because of it."`
	Total    int         `json:"total" jsonschema:"Number of alerts, of which this answer has the first ones."`
	Findings []Finding   `json:"findings" items:"50" jsonschema:"Failures that lines show and rules describe, and that would be no alert, the most likely first."`
	Unknown  []Complaint `json:"unknown" items:"5" jsonschema:"Complaints that no rule describes."`
	Rules    []Replayed  `json:"rules" items:"100" jsonschema:"Rules with matching lines, those with the most lines first."`
	Lines    int64       `json:"lines_read"`
	Tried    int         `json:"rules_tried"`
	Seen     Seen        `json:"seen"`
	Answer
}

func (s *Server) replay(ctx context.Context, in replayIn) (*replayOut, error) {
	switch {
	case in.Lines == "":
		return nil, errors.New("replay needs lines")
	case len(in.Lines) > maxLines:
		return nil, fmt.Errorf("lines has %d bytes, at most %d are allowed; give fewer lines, or run crowsnest case", len(in.Lines), maxLines)
	}
	set, name, err := s.rulesOf(in)
	if err != nil {
		return nil, err
	}
	program, err := matcher.CompileOpen(set)
	if err != nil {
		return nil, fmt.Errorf("compile rules: %w", err)
	}
	logs, account, findErr := inputs.Memory(nameOfLines, []byte(in.Lines), inputs.Options{Labels: in.Labels})
	for i := range logs {
		logs[i].Open = within(ctx, logs[i].Open)
	}
	now := s.cfg.Now()
	logs, spans := casefile.Observe(logs, now)
	lines := casefile.NewRecorder(s.hide)
	report, readErr := scan.Run(replay.Target{Set: set, Program: program}, logs, replay.ScanOptions{Lenient: true, Now: now, Redactor: s.hide, OnHits: lines.Add})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the replay took longer than %s: give fewer lines or rules", maxCall)
	}
	if err := errors.Join(findErr, readErr); err != nil {
		return nil, err
	}
	if report.Lines == 0 {
		return nil, errors.New("there is no line to read, so this is no all-clear")
	}
	account.Count(report.Outcomes)
	made, err := casefile.FromReport(casefile.Recorded{
		Names: []string{nameOfLines}, Inputs: logs, Set: set, Report: report.Report, Unknown: report.Unknown, Lines: lines, Spans: spans, Now: now, Version: s.cfg.Version,
	})
	if err != nil {
		return nil, err
	}
	return s.replayed(made, report.Report, nameOfLines+", evaluated with "+name)
}

// rulesOf returns the rules of a call, and what to call them.
func (s *Server) rulesOf(in replayIn) (*rules.Set, string, error) {
	switch {
	case in.Rules == "":
		set, err := s.cfg.Rules()
		return set, s.cfg.RulesName, err
	case len(in.Rules) > maxRules:
		return nil, "", fmt.Errorf("rules has %d bytes, at most %d are allowed", len(in.Rules), maxRules)
	}
	docs, problems := loader.ParseFiles([]rules.File{{Name: "rules.yaml", Data: []byte(in.Rules)}})
	set, found := loader.Build(docs, rules.Options{})
	if errs := append(problems, found...).Errors(); len(errs) > 0 {
		errs.Sort()
		return nil, "", fmt.Errorf("the rules of the call are refused:\n%w", errs)
	}
	return set, "the rules of the call", nil
}

func (s *Server) replayed(made *casefile.Case, report replay.Report, basis string) (*replayOut, error) {
	all := []Alert{}
	for _, f := range made.Failures {
		all = append(all, alertOf(f))
	}
	out := &replayOut{Total: report.Fired(), Findings: []Finding{}, Unknown: []Complaint{}, Rules: []Replayed{}, Lines: report.Lines, Tried: made.Evidence.Rules}
	for _, f := range made.Findings {
		out.Findings = append(out.Findings, Finding{Reason: string(f.Reason), Missing: f.Missing, Also: f.Also, Alert: alertOf(f.Failure)})
	}
	for _, u := range made.Unknown {
		out.Unknown = append(out.Unknown, Complaint{Where: u.Where, Pattern: u.Pattern, Why: u.Why, Count: u.Count, Example: string(u.Example)})
	}
	for _, r := range report.Rules {
		if r.Lines > 0 || r.Alerts > 0 {
			out.Rules = append(out.Rules, Replayed{Rule: r.Rule.Alert, Lines: r.Lines, Episodes: r.Episodes, Alerts: r.Alerts})
		}
	}
	slices.SortStableFunc(out.Rules, func(a, b Replayed) int { return cmp.Compare(b.Lines, a.Lines) })
	out.Seen = seenOf(basis, s.cfg.Now(), made.Evidence.Until, made.NotSeen, s.cfg.inName("crowsnest case lists all of it for the same log."))
	var err error
	if out.Alerts, _, err = page(all, 0, 0); err != nil {
		return nil, err
	}
	switch n := len(out.Alerts); {
	case out.Total == 0:
		out.Verdict = "The lines would have fired no alert. " + out.Seen.limits()
		if n := len(out.Findings); n > 0 {
			out.Verdict = fmt.Sprintf("The lines would have fired no alert, but rules describe %s in them: see findings. ", text.Plural(int64(n), "failure")) + out.Seen.limits()
		}
	case n < out.Total:
		out.Verdict = s.cfg.inName(fmt.Sprintf("The lines would have fired %d alerts; these are the first %d. Give fewer lines to see the others, or run crowsnest case.", out.Total, n))
	default:
		out.Verdict = fmt.Sprintf("The lines would have fired %s.", text.Plural(int64(n), "alert"))
	}
	return out, nil
}

// within ends the reading of an input when the time of the call is over.
func within(ctx context.Context, open func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		rc, err := open()
		if err != nil {
			return nil, err
		}
		return &timed{ReadCloser: rc, ctx: ctx}, nil
	}
}

type timed struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements io.Reader.
func (t *timed) Read(p []byte) (int, error) {
	if err := t.ctx.Err(); err != nil {
		return 0, err
	}
	return t.ReadCloser.Read(p)
}
