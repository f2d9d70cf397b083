package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

// logTime is how long a log is read in each round.
const logTime = 800 * time.Millisecond

// watchedLog is a log that rules are tried on while they are written.
type watchedLog struct {
	paths   []string
	find    inputs.Options
	lenient bool

	of   string // the state of the files when logs was collected
	logs []replay.Input
	err  error
}

// scan returns what the rules find in the part of the log that is read in time.
func (l *watchedLog) scan(ctx context.Context, set *rules.Set) string {
	program, err := matcher.CompileOpen(set)
	if err != nil {
		return fmt.Sprintf("log: compile rules: %v\n", err)
	}
	if is := stateOfFiles(l.paths); is != l.of {
		l.logs, _, l.err = inputs.Collect(l.paths, l.find)
		l.of = is
	}
	if len(l.logs) == 0 {
		return fmt.Sprintf("log: %v\n", l.err)
	}
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	var cut atomic.Int64
	logs := slices.Clone(l.logs)
	for i, in := range logs {
		logs[i].Open = func() (io.ReadCloser, error) {
			rc, err := in.Open()
			if err != nil {
				return nil, err
			}
			return &untilDone{ReadCloser: rc, ctx: ctx, cut: &cut}, nil
		}
	}
	report, err := replay.Scan(set, program, logs, replay.ScanOptions{Lenient: l.lenient, Now: time.Now(), Redactor: redact.New(nil)})
	var b strings.Builder
	part := ""
	if cut.Load() > 0 {
		part = fmt.Sprintf(" of the beginning (%d MiB in %s)", report.Bytes>>20, logTime)
	}
	fmt.Fprintf(&b, "log: %s from %s of %s%s\n", text.Plural(int64(report.Fired()), "alert"), text.Plural(report.Hits, "match"), text.Plural(report.Lines, "line"), part)
	if err != nil {
		fmt.Fprintf(&b, "log: %v\n", err)
	}
	writeFound(&b, report)
	return b.String()
}

// writeFound lists the rules that matched, with the newest alert of each.
func writeFound(b *strings.Builder, report replay.Report) {
	shown := 0
	for _, r := range report.Rules {
		if r.Lines == 0 {
			continue
		}
		if shown++; shown > maxShownProblems {
			continue
		}
		fmt.Fprintf(b, "  %s: %s, %s\n", r.Rule.Alert, text.Plural(r.Lines, "line"), text.Plural(int64(r.Alerts), "alert"))
		for _, a := range slices.Backward(report.Alerts) {
			if a.Episode.Alert == r.Rule.Alert {
				fmt.Fprintf(b, "    %s %s\n    %s\n", a.Episode.State, text.Labels(a.Episode.Labels), text.Shorten(redact.Sanitise(a.Episode.Line), maxShownPart))
				break
			}
		}
	}
	if shown > maxShownProblems {
		fmt.Fprintf(b, "  and %s\n", text.Plural(shown-maxShownProblems, "more rule"))
	}
}

// stateOfFiles identifies the content of files by their sizes and times.
func stateOfFiles(paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			fmt.Fprintf(&b, "%s %v\n", p, err)
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", p, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}

// untilDone is an input that ends with the context.
type untilDone struct {
	io.ReadCloser
	ctx context.Context
	cut *atomic.Int64 // inputs that ended early
}

// Read reads, or returns io.EOF after the end of the context.
func (r *untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		r.cut.Add(1)
		return 0, io.EOF
	}
	return r.ReadCloser.Read(p)
}
