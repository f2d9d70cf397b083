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

// Limits of a scan.
const (
	maxScanRules = 64 << 10 // maximum size of the rules in bytes
	maxScanLog   = 64 << 10 // maximum size of the log in bytes
	maxExplained = 100      // maximum number of lines to which rules are applied, and of explanations for one line
	maxScanTime  = 3 * time.Second
	maxTestTime  = time.Second                   // maximum estimated CPU time of the tests
	maxScanBody  = 3*maxScanRules + 3*maxScanLog // maximum size of the encoded request in bytes
	maxScans     = 4                             // maximum number of requests that are being read or waiting
)

// ScanRequest is a request to scan a log, or to try rules on its lines.
type ScanRequest struct {
	Lines  string `json:"lines"`
	Labels string `json:"labels,omitempty"` // labels of the log's stream, as a selector with =, such as {namespace="a"}
	// Rules are tried on the lines. If they are empty, the lines are scanned with the loaded
	// rules instead. They are YAML, either a pack or a list of rules.
	Rules string `json:"rules,omitempty"`
}

// ScanResult is the answer to a ScanRequest. Nothing of it is stored.
type ScanResult struct {
	Scan  *Scanned `json:"scan,omitempty"`
	Tried *Tried   `json:"tried,omitempty"`
}

// Scanned is the result of scanning a log. Secrets are redacted.
type Scanned struct {
	Alerts []ScanFailure `json:"alerts"`
	// Findings are failures that rules describe but that are not certain, the most likely one
	// first.
	Findings []ScanFailure `json:"findings"`
	Unknown  []ScanUnknown `json:"unknown"`           // failures that no rule describes
	Omitted  int           `json:"omitted,omitempty"` // number of alerts and findings that are not listed
	Lines    int64         `json:"linesRead"`
	Hits     int64         `json:"linesMatched"`
	Known    string        `json:"known"` // summary in one sentence
}

// ScanFailure is a failure that a rule describes.
type ScanFailure struct {
	Rule        string            `json:"rule"`
	Severity    string            `json:"severity"`
	State       string            `json:"state,omitempty"`   // state of the alert; only for alerts
	Reason      string            `json:"reason,omitempty"`  // reason why the failure is not certain, which is too_short, too_few, waiting, elsewhere, recovered or untrusted
	Missing     string            `json:"missing,omitempty"` // description of the reason; for an alert, the assumption on which it is based
	Labels      map[string]string `json:"labels"`
	Summary     string            `json:"summary,omitempty"`
	Description string            `json:"description,omitempty"`
	Remediation string            `json:"remediation,omitempty"`
	Count       int64             `json:"count"`             // number of lines
	StartsAt    time.Time         `json:"startsAt,omitzero"` // start of the failure; absent if its lines state no time
	LastSeen    time.Time         `json:"lastSeen,omitzero"`
	EndsAt      *time.Time        `json:"endsAt,omitempty"`
	Line        redact.Text       `json:"line"`
	Matched     []string          `json:"matched,omitempty"` // parts of the line that the rule looks for
	OtherRules  []string          `json:"also,omitempty"`    // names of further rules about the same lines or the same object
	// OtherPlaces are the labels of further failures that the same rule describes.
	OtherPlaces []map[string]string `json:"elsewhere,omitempty"`
}

// Marked returns the line with marks around the texts that the rule looks for.
func (f ScanFailure) Marked() any { return withMarks(tameText(string(f.Line)), f.Matched) }

// Steps returns the steps of the remediation.
func (f ScanFailure) Steps() any { return parseRemedy(f.Remediation) }

// ScanUnknown is a failure in the lines of one component that no rule describes.
type ScanUnknown struct {
	Component  string        `json:"component"`
	Reason     string        `json:"why"`
	Pattern    redact.Text   `json:"pattern"`
	OtherTexts []redact.Text `json:"also,omitempty"` // texts of further patterns
	Count      int64         `json:"count"`          // lower bound of the number of lines
	Examples   []redact.Text `json:"examples"`
}

// scanner runs one scan at a time. A scan runs to its end even if the client has disconnected.
type scanner struct {
	admit chan struct{}
	turn  chan struct{}
	tests func([]*rules.Rule) ([]TestOutcome, error)
	logs  func(log string, labels matcher.Labels) (Scanned, error) // scans a log; nil if only rules can be tried
}

var errScanBusy = errors.New("another scan is running; try again in some seconds")

// runRequests runs a scan or tries the rules of a request. Its error messages are for people.
func (p *scanner) runRequests(done <-chan struct{}, req ScanRequest) (ScanResult, error) {
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
		r, err := p.scanRequest(req)
		out <- outcome{r, err}
	}()
	select {
	case o := <-out:
		return o.result, o.err
	case <-timeout.C:
		return ScanResult{}, fmt.Errorf("this takes longer than %s; give fewer lines, or run crowsnest on your machine", maxScanTime)
	}
}

func (p *scanner) scanRequest(req ScanRequest) (out ScanResult, err error) {
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

type scanData struct {
	ScanRequest
	Result *ScanResult
	Error  string
}

// scanPage serves the form. If the address contains the name of a rule, the form contains the text of this rule.
func (s *Server) scanPage(w http.ResponseWriter, r *http.Request) {
	data := scanData{}
	if full := s.view.Rules().Set.Rule(r.URL.Query().Get("rule")); full != nil {
		data.Rules, data.Labels = full.Source, full.From.String()
		if _, err := scanLabels(data.Labels); err != nil {
			data.Labels = ""
		}
		for _, t := range full.Tests { // full is used, because the loaded shipped rules have no tests
			for _, in := range t.Input {
				if len(data.Lines) < 2<<10 && in.Text != "" {
					data.Lines += strings.ReplaceAll(in.Text, "{{ $value }}", "1") + "\n" // a line that a test repeats is added once
				}
			}
		}
	}
	s.renderScan(w, http.StatusOK, data)
}

func (s *Server) renderScan(w http.ResponseWriter, code int, data scanData) {
	s.renderPage(w, "scan", code, page{Title: "Scan", Path: "/scan", Data: data})
}

// limitReading limits the size of requests, and by the semaphore admit the number of requests at the same time.
func (s *Server) limitReading(admit chan struct{}, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case admit <- struct{}{}:
			defer func() { <-admit }()
			r.Body = http.MaxBytesReader(w, r.Body, maxScanBody)
			h(w, r)
		default:
			serveBusy(w)
		}
	}
}

// serveScan scans the content of a form. The result is not shared between clients and not stored.
func (s *Server) serveScan(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(maxScanBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		s.serveError(w, http.StatusBadRequest, "Not understood", fmt.Sprintf("The form could not be read, or is too large: at most %d KiB of a log are scanned.", maxScanLog>>10))
		return
	}
	data := scanData{ScanRequest: ScanRequest{Rules: r.PostForm.Get("rules"), Lines: r.PostForm.Get("lines"), Labels: r.PostForm.Get("labels")}}
	if file, _, err := r.FormFile("file"); err == nil {
		defer file.Close()
		if text, err := io.ReadAll(file); err == nil && len(text) > 0 { // the file is in memory, so reading is fast
			data.Lines = strings.ToValidUTF8(string(text), "\ufffd")
		}
	}
	code := http.StatusOK
	result, err := s.scanner.runRequests(r.Context().Done(), data.ScanRequest)
	if err != nil {
		data.Error, code = tameText(err.Error()), http.StatusBadRequest
	} else {
		data.Result = &result
	}
	s.renderScan(w, code, data)
}

// apiScan is like serveScan for a ScanRequest in JSON.
func (s *Server) apiScan(w http.ResponseWriter, r *http.Request) {
	var req ScanRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		writeError(w, badData("the body is not a JSON object with lines, labels and rules"))
		return
	}
	result, err := s.scanner.runRequests(r.Context().Done(), req)
	switch {
	case errors.Is(err, errScanBusy):
		serveBusy(w)
	case err != nil:
		writeError(w, badData(err.Error()))
	default:
		writeData(w, result)
	}
}
