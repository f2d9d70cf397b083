package cli

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/spf13/cobra"

	"crowsnest/internal/text"
	"crowsnest/lab/scan"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/loki"
)

type lokiFlags struct {
	url, query   string
	since, until *instant
	tenant       string
	httpConfig   string
	rename       []string
}

func (f *lokiFlags) add(cmd *cobra.Command) {
	f.since, f.until = newSince(24*time.Hour), &instant{}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "loki", "", "base `URL` of a Loki to read from, instead of files")
	flags.StringVar(&f.query, "query", "", "`SELECTOR` of the streams to read from Loki, such as {namespace=~\".+\"}")
	flags.Var(f.since, "since", "start of the range to read from Loki: a duration before its end, or an RFC 3339 time")
	flags.Var(f.until, "until", "end of the range to read from Loki: an RFC 3339 time (default: now)")
	flags.StringVar(&f.tenant, "tenant", "", "`TENANT` of Loki, sent as X-Scope-OrgID")
	flags.StringVar(&f.httpConfig, httpConfigFlag, "", "TLS and credentials for Loki: a `FILE` with Prometheus' http_config")
	flags.StringArrayVar(&f.rename, "loki.label", nil, "rename a label of Loki, `from=to` (repeatable)")
}

// check returns an error about arguments that exclude each other.
func (f *lokiFlags) check(args []string) error {
	switch {
	case f.url == "" && len(args) == 0:
		return usageErrorf("replay needs files or folders, or --loki URL")
	case f.url == "" && f.query != "":
		return usageErrorf("--query needs --loki")
	case f.url != "" && len(args) > 0:
		return usageErrorf("give files or --loki, not both")
	case f.url != "" && f.query == "":
		return usageErrorf("--loki needs --query with the streams to read, such as --query '{namespace=~\".+\"}'")
	}
	return nil
}

func (f *lokiFlags) source(now time.Time) (cfg loki.Config, rg loki.Range, err error) {
	rg.To = now
	if f.until.text != "" {
		rg.To = f.until.at
	}
	if rg.From = f.since.from(rg.To); !rg.From.Before(rg.To) {
		return cfg, rg, usageErrorf("--since: %s is not before %s", rg.From.Format(time.RFC3339), rg.To.Format(time.RFC3339))
	}
	cfg = loki.Config{URL: f.url, Selector: f.query}
	if f.tenant != "" {
		cfg.Tenants = []string{f.tenant}
	}
	if cfg.Labels, err = parseLabels(f.rename); err != nil {
		return cfg, rg, err
	}
	if f.httpConfig != "" {
		h, _, err := commonconfig.LoadHTTPConfigFile(f.httpConfig)
		if err != nil {
			return cfg, rg, fmt.Errorf("read --%s: %w", httpConfigFlag, err)
		}
		cfg.HTTP.HTTPClientConfig = *h
	}
	return cfg, rg, cfg.Validate()
}

// replayLoki runs one or two sets of rules over a range of Loki's history. It reads
// the range once.
func (c *cli) replayLoki(ctx context.Context, f replayFlags) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, rg, err := f.loki.source(time.Now())
	if err != nil {
		return err
	}
	sets, err := c.replaySets(f)
	if err != nil {
		return err
	}
	all := &rules.Set{}
	targets := make([]replay.Target, len(sets))
	for i, set := range sets {
		program, err := matcher.CompileOpen(set)
		if err != nil {
			return fmt.Errorf("compile rules: %w", err)
		}
		targets[i] = replay.Target{Set: set, Program: program}
		all.Rules = slices.Concat(all.Rules, set.Rules)
	}
	at := &rangeProgress{from: rg.From, to: rg.To}
	progress := c.startProgress("reading Loki", at.state)
	defer progress.end()
	lost := 0
	rg.Rules, rg.Lost = all, func(reason, where string) {
		if lost++; lost <= 5 {
			fmt.Fprintf(c.err, "cannot read an entry of Loki: %s: %s\n", reason, where)
		}
	}
	reports, readErr := replay.ScanRecords(targets, func(emit func(*matcher.Stream, matcher.Record) error) error {
		return loki.ReadRange(ctx, cfg, rg, func(s *matcher.Stream, rec matcher.Record) error {
			at.reached(rec.Time)
			return emit(s, rec)
		})
	}, replay.ScanOptions{Now: rg.To, End: rg.To, Redactor: redact.New(nil), Reads: loki.Serves(cfg), Findings: len(targets) == 1})
	progress.end()
	if readErr != nil {
		return fmt.Errorf("%w (read: %s)", readErr, text.Plural(reports[0].Lines, "line"))
	}
	if lost > 0 {
		fmt.Fprintf(c.err, "%s of Loki could not be read\n", text.Plural(lost, "entry"))
	}
	results := make([]scan.Result, len(reports))
	for i := range reports {
		results[i].Report = reports[i]
		results[i].Start = rg.From // rates refer to the whole range
	}
	reportIgnored(c.err, reports[0])
	return c.printReplay(f, sets, results, nil)
}

func (c *cli) replaySets(f replayFlags) ([]*rules.Set, error) {
	set, err := f.rules.load(c)
	if err != nil || len(f.against) == 0 {
		return []*rules.Set{set}, err
	}
	other, err := c.loadRules(f.against, withoutTests)
	if err == nil {
		other.Namespaces = set.Namespaces
	}
	return []*rules.Set{set, other}, err
}

// rangeProgress is how much of a time range has been read. Safe for concurrent use.
type rangeProgress struct {
	from, to time.Time
	at       atomic.Int64 // nanoseconds
	lines    atomic.Int64
}

func (p *rangeProgress) reached(t time.Time) {
	p.lines.Add(1)
	p.at.Store(t.UnixNano())
}

// state returns the part of the range that was read.
func (p *rangeProgress) state() (done float64, where string) {
	lines := p.lines.Load()
	if lines == 0 {
		return 0, "waiting for lines"
	}
	t := time.Unix(0, p.at.Load())
	return float64(t.Sub(p.from)) / float64(p.to.Sub(p.from)), fmt.Sprintf("%s, %s that may match", t.UTC().Format(time.RFC3339), text.Plural(lines, "line"))
}
