package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Bounds of a scan.
const (
	maxScanRules = 64 << 10 // bytes of the rules
	maxScanLog   = 64 << 10 // bytes of the log
	maxExplained = 100      // lines that rules are tried on, and explanations of one line
	maxScanTime  = 3 * time.Second
	maxTestTime  = time.Second                   // estimated CPU time of the tests
	maxScanBody  = 3*maxScanRules + 3*maxScanLog // encoded
	maxScans     = 4                             // requests that are read or wait
)

// ScanRequest is a log to scan.
type ScanRequest struct {
	Lines  string `json:"lines"`
	Labels string `json:"labels,omitempty"` // labels of its stream as a selector with =, such as {namespace="a"}
	// Rules are tried on the lines instead of scanning them with the rules in force: YAML, as a
	// pack or as a list of rules; empty if none are.
	Rules string `json:"rules,omitempty"`
}

// ScanResult is what a request asked for. Nothing of it is stored.
type ScanResult struct {
	Scan  *Scanned `json:"scan,omitempty"`
	Tried *Tried   `json:"tried,omitempty"`
}

// Scanned is what a log shows. Secrets are redacted.
type Scanned struct {
	Alerts []ScanFailure `json:"alerts"`
	// Findings are failures that rules describe and that are not certain, the most likely first.
	Findings []ScanFailure `json:"findings"`
	Unknown  []ScanUnknown `json:"unknown"`           // complaints that no rule describes
	Omitted  int           `json:"omitted,omitempty"` // alerts and findings that are not listed
	Lines    int64         `json:"linesRead"`
	Hits     int64         `json:"linesMatched"`
	Known    string        `json:"known"` // what is known, in one sentence
}

// ScanFailure is a failure that a rule describes.
type ScanFailure struct {
	Rule        string            `json:"rule"`
	Severity    string            `json:"severity"`
	State       string            `json:"state,omitempty"`   // state of an alert
	Reason      string            `json:"reason,omitempty"`  // why it is not certain: too_short, too_few, waiting, elsewhere, recovered or untrusted
	Missing     string            `json:"missing,omitempty"` // the same in words; of an alert, what it assumes
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"`
	Description string            `json:"description,omitempty"`
	Remediation string            `json:"remediation,omitempty"`
	Count       int64             `json:"count"`             // lines
	StartsAt    time.Time         `json:"startsAt,omitzero"` // absent: its lines state no time
	LastSeen    time.Time         `json:"lastSeen,omitzero"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
	Line        redact.Text       `json:"line"`
	Matched     []string          `json:"matched,omitempty"` // parts of the line that the rule looks for
	Also        []string          `json:"also,omitempty"`    // further rules about the same lines or object
	// Elsewhere are the labels of further failures of the rule.
	Elsewhere []map[string]string `json:"elsewhere,omitempty"`
}

// Marked is the line with what the rule looks for.
func (f ScanFailure) Marked() any { return withMarks(tame(string(f.Line)), f.Matched) }

// Steps are what to do.
func (f ScanFailure) Steps() remedy { return remedyOf(f.Remediation) }

// ScanUnknown is what the lines of one component show that no rule describes.
type ScanUnknown struct {
	Component string        `json:"component"`
	Why       string        `json:"why"`
	Pattern   redact.Text   `json:"pattern"`
	Also      []redact.Text `json:"also,omitempty"` // further patterns
	Count     int64         `json:"count"`          // lines, at least
	Examples  []redact.Text `json:"examples"`
}

// scanner does one scan at a time: a second one waits until the first has ended, even if nobody
// waits for that any longer.
type scanner struct {
	admit chan struct{}
	turn  chan struct{}
	tests func([]*rules.Rule) ([]TestOutcome, error)
	logs  func(log string, labels matcher.Labels) (Scanned, error) // nil if rules are tried only
}

var errScanBusy = errors.New("another scan is running; try again in some seconds")

// scan does what a request asks for. It returns errors that are for people.
func (p *scanner) scan(done <-chan struct{}, req ScanRequest) (ScanResult, error) {
	if len(req.Rules) > maxScanRules || len(req.Lines) > maxScanLog || len(req.Labels) > maxFilters {
		return ScanResult{}, fmt.Errorf("there are more than %d KiB of rules, more than %d KiB of log, or more than %d KiB of labels", maxScanRules>>10, maxScanLog>>10, maxFilters>>10)
	}
	timeout := time.NewTimer(maxScanTime)
	defer timeout.Stop()
	select {
	case p.turn <- struct{}{}:
	case <-timeout.C:
		return ScanResult{}, errScanBusy
	case <-done:
		return ScanResult{}, errScanBusy
	}
	type outcome struct {
		result ScanResult
		err    error
	}
	out := make(chan outcome, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				out <- outcome{err: fmt.Errorf("crowsnest failed because of a defect: %.200v", v)}
			}
			<-p.turn
		}()
		r, err := p.run(req)
		out <- outcome{r, err}
	}()
	select {
	case o := <-out:
		return o.result, o.err
	case <-timeout.C:
		return ScanResult{}, fmt.Errorf("this takes longer than %s; give fewer lines, or run crowsnest on your machine", maxScanTime)
	}
}

func (p *scanner) run(req ScanRequest) (out ScanResult, err error) {
	labels, err := scanLabels(req.Labels)
	if err != nil {
		return out, err
	}
	switch {
	case strings.TrimSpace(req.Rules) != "":
		out.Tried, err = p.tryRules(req, labels)
	case strings.TrimSpace(req.Lines) == "":
		return out, errors.New("there is no line to scan")
	case p.logs == nil:
		return out, errors.New("this process scans no logs")
	default:
		var found Scanned
		found, err = p.logs(req.Lines, labels)
		out.Scan = &found
	}
	return out, err
}

// scanData is what the page shows.
type scanData struct {
	ScanRequest
	Result *ScanResult
	Error  string
}

// scanPage serves the form, with a rule that the address names.
func (s *Server) scanPage(w http.ResponseWriter, r *http.Request) {
	data := scanData{}
	if full := s.view.Rules().Set.Rule(r.URL.Query().Get("rule")); full != nil {
		data.Rules, data.Labels = full.Source, full.From.String()
		if _, err := scanLabels(data.Labels); err != nil {
			data.Labels = ""
		}
		for _, t := range full.Tests { // shipped rules are loaded without theirs
			for _, in := range t.Input {
				if len(data.Lines) < 2<<10 && in.Text != "" {
					data.Lines += strings.ReplaceAll(in.Text, "{{ $value }}", "1") + "\n" // the first one of a repeated line
				}
			}
		}
	}
	s.renderScan(w, http.StatusOK, data)
}

func (s *Server) renderScan(w http.ResponseWriter, code int, data scanData) {
	s.render(w, "scan", code, page{Title: "Scan", Path: "/scan", Data: data})
}

// admitted bounds how many requests are read at the same time, and their size.
func (s *Server) admitted(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.scanner.admit <- struct{}{}:
			defer func() { <-s.scanner.admit }()
			r.Body = http.MaxBytesReader(w, r.Body, maxScanBody)
			h(w, r)
		default:
			busy(w)
		}
	}
}

// scan scans what a form has. It is not shared between requests, and stores nothing.
func (s *Server) scan(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(maxScanBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		s.fail(w, http.StatusBadRequest, "Not understood", fmt.Sprintf("The form could not be read, or is too large: at most %d KiB of a log are scanned.", maxScanLog>>10))
		return
	}
	data := scanData{ScanRequest: ScanRequest{Rules: r.PostForm.Get("rules"), Lines: r.PostForm.Get("lines"), Labels: r.PostForm.Get("labels")}}
	if file, _, err := r.FormFile("file"); err == nil {
		defer file.Close()
		if text, err := io.ReadAll(file); err == nil && len(text) > 0 { // the file is in memory
			data.Lines = strings.ToValidUTF8(string(text), "\ufffd")
		}
	}
	code := http.StatusOK
	result, err := s.scanner.scan(r.Context().Done(), data.ScanRequest)
	if err != nil {
		data.Error, code = tame(err.Error()), http.StatusBadRequest
	} else {
		data.Result = &result
	}
	s.renderScan(w, code, data)
}

// apiScan does the same for programs.
func (s *Server) apiScan(w http.ResponseWriter, r *http.Request) {
	var req ScanRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		writeError(w, &apiError{http.StatusBadRequest, "bad_data", "the body is not a JSON object with lines, labels and rules"})
		return
	}
	result, err := s.scanner.scan(r.Context().Done(), req)
	switch {
	case errors.Is(err, errScanBusy):
		busy(w)
	case err != nil:
		writeError(w, &apiError{http.StatusBadRequest, "bad_data", err.Error()})
	default:
		writeData(w, result)
	}
}
