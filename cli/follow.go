package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"crowsnest/cli/internal/follow"
	"crowsnest/cli/internal/show"
	"crowsnest/episodes"
	"crowsnest/lab/inputs"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/sources/kubelet"
)

// scanFollow prints hits or alerts while lines are written, until a signal or the end of
// all inputs.
func (c *cli) scanFollow(ctx context.Context, f scanFlags, args []string, labels matcher.Labels, target replay.Target) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A later signal ends the process at once. Some programs send the first one twice.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })()
	logs, err := follow.Find(args, c.in)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.out, 64<<10)
	hits := &show.Hits{W: out, Form: f.output.value, Asides: f.asides}
	opt := follow.Options{
		Target: target, Inputs: inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels},
		Follow: replay.FollowOptions{Scan: f.options(hits), Clock: time.Now},
		Flush: func() error {
			hits.Flush()
			return errors.Join(hits.Err(), out.Flush())
		},
	}
	opt.Follow.Scan.OnWait, opt.Follow.Scan.Findings = nil, !f.hits
	opt.Follow.Reads = logs.Reads(opt.Inputs, !f.strictLabels)
	if !f.hits {
		opt.Follow.OnAlert = c.alertPrinter(out, f.output.value)
	}
	res, err := follow.Run(ctx, logs, opt)
	if err != nil {
		return err
	}
	if f.output.value == "text" {
		err = show.Findings(out, res.Report.Findings, f.all, res.Alerts > 0, show.Style{Color: c.colors(c.out)})
	} else if !f.hits {
		err = show.Lines(out, scan.Result{Report: replay.Report{Findings: res.Report.Findings}})
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if f.output.value == "text" {
		res.Report.Alerts = make([]replay.Alert, res.Alerts)
		c.summarize(res.Report, len(target.Set.Rules), opt.Follow.Scan.HitsOnly)
	}
	for _, s := range res.Skipped {
		fmt.Fprintf(c.err, "skipped %s: it %s\n", named(s.Names), s.Problem)
	}
	reportIgnored(c.err, res.Report)
	switch r := res.Report; {
	case r.Lines == 0 && res.Ended:
		return errors.New("the input has no text: this is no all-clear")
	case r.Lines == 0:
		fmt.Fprintln(c.err, "nothing was read: this is no all-clear")
	case len(r.Untimed) > 0:
		fmt.Fprintf(c.err, "no line of %s has a timestamp in a known format; the lines were read as plain text\n", named(r.Untimed))
	}
	if f.exitCode != 0 && res.Alerts > 0 {
		return exitCode(f.exitCode)
	}
	return nil
}

// alertPrinter returns a function that prints an alert when it fires and when it resolves.
func (c *cli) alertPrinter(out *bufio.Writer, form string) func(episodes.Episode) {
	style, first := show.Style{Color: c.colors(c.out)}, true
	return func(e episodes.Episode) {
		if form == "jsonl" {
			_ = show.AlertLine(out, replay.Alert{Episode: e, Fired: e.FiredAt}) // Flush returns the error
			return
		}
		if !first {
			fmt.Fprintln(out)
		}
		first = false
		style.Brief = e.State == episodes.StateResolved
		_ = show.Alert(out, e, style)
	}
}
