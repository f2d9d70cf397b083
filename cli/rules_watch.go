package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/spf13/cobra"

	"crowsnest/daemon/loader"
	"crowsnest/internal/text"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
	"crowsnest/sources/kubelet"
)

const (
	// watchEvery is how often the files are read. A change is acted on when they are the
	// same twice, so that a file that is being written is not reported as broken.
	watchEvery = 200 * time.Millisecond
	// maxShownProblems bounds the problems, failures and alerts of one round each.
	maxShownProblems = 12
)

type watchFlags struct {
	rules        []string
	logs         []string
	labels       []string
	strictLabels bool
	mutate       bool
}

func newRulesWatch(c *cli) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch [PACK...]",
		Short: "Check and test packs beside an editor, on every change",
		Long: `Reads packs and folders of packs again whenever they change, and prints a short
result each time: the problems that check finds, the tests that fail, and with --log
what the rules find in a log. Without PACK it watches the current folder. It works
with editors that replace files, and goes on while a file is broken or missing.
With --rules shipped the built-in packs are loaded beside the others, as where these
will run, and their rules are tried on the log.

Only the rules of changed files are tested again. Of a log it reads as much as it
can in 0.8 s, from the beginning; scan reads everything.

On a terminal each result replaces the one before. Ctrl-C ends it.`,
		Example: `  crowsnest rules watch packs/
  crowsnest rules watch --log attach.log packs/storage.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.watchRules(cmd.Context(), f, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.rules, "rules", nil, "further packs: a file or folder `PATH`, or shipped for the built-in packs (repeatable)")
	flags.StringArrayVar(&f.logs, "log", nil, "also scan this log, a file or folder `PATH` (repeatable)")
	flags.StringArrayVar(&f.labels, "label", nil, "with --log: label of every stream, `name=value` (repeatable)")
	flags.BoolVar(&f.strictLabels, "strict-labels", false, "with --log: an unknown label satisfies no selector")
	flags.BoolVar(&f.mutate, "mutate", false, "also find parts of rules that no test covers")
	return cmd
}

func (c *cli) watchRules(ctx context.Context, f watchFlags, paths []string) error {
	paths = append(paths, f.rules...)
	shipped := slices.Contains(paths, shippedRules)
	if paths = slices.DeleteFunc(paths, func(p string) bool { return p == shippedRules }); len(paths) == 0 {
		paths = []string{"."}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	w := &packWatch{name: c.name, paths: paths, shipped: shipped, mutate: f.mutate, out: c.out, clear: isTerminal(c.out), now: time.Now}
	if len(f.logs) > 0 {
		labels, err := parseLabels(f.labels)
		if err != nil {
			return err
		}
		folder, err := makeFolder() // signals end the watch, which removes it
		if err != nil {
			return err
		}
		defer func() {
			removeAll(folder.path)
			_ = folder.remove()
		}()
		w.log = &watchedLog{paths: f.logs, lenient: !f.strictLabels, find: inputs.Options{
			Labels: labels, PathLabels: kubelet.PathLabels, Stdin: strings.NewReader(""), Unpack: folder.path,
		}}
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	return w.run(ctx, tick.C)
}

// packWatch prints a result whenever packs change.
type packWatch struct {
	name  string // name by which the program was called
	paths []string
	// shipped means that the built-in packs are loaded too. They are not tested.
	shipped bool
	mutate  bool
	out     io.Writer
	clear   bool // the screen, before each result
	now     func() time.Time
	log     *watchedLog // nil: none
	tested  map[string]replay.TestReport
}

// run watches until the context ends. It reads the files at each tick.
func (w *packWatch) run(ctx context.Context, tick <-chan time.Time) error {
	var shown, last uint64
	for first := true; ; first = false {
		files, problems := rulefiles.ReadPaths(w.paths)
		is := contentOf(files, problems)
		if first || is == last && is != shown {
			if err := w.show(ctx, files, problems); err != nil {
				return err
			}
			shown = is
		}
		last = is
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// contentOf returns a hash of what was read.
func contentOf(files []rules.File, problems rules.Problems) uint64 {
	h := xxhash.New()
	for _, f := range files {
		_, _ = h.WriteString(f.Name) // never fails
		_, _ = h.Write([]byte{0})
		_, _ = h.Write(f.Data)
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.WriteString(problems.Error())
	return h.Sum64()
}

// show checks and tests the packs, and prints the result.
func (w *packWatch) show(ctx context.Context, files []rules.File, problems rules.Problems) error {
	began := w.now()
	beside := 0
	if w.shipped {
		all := loader.ShippedWithoutTests()
		beside, files = len(all), append(all, files...)
	}
	docs, found := loader.ParseFiles(files)
	set, more := loader.Build(docs, rules.Options{})
	problems = slices.Concat(problems, found, more)
	docs = docs[min(beside, len(docs)):]
	var own []*rules.Rule
	if set != nil {
		of := func(r *rules.Rule) bool {
			return slices.ContainsFunc(docs, func(d *rules.Document) bool { return d.File() == r.File })
		}
		own = slices.DeleteFunc(slices.Clone(set.Rules), func(r *rules.Rule) bool { return !of(r) })
	}
	var report replay.TestReport
	var scanned string
	if set != nil && len(problems.Errors()) == 0 {
		untested, err := replay.Untested(own)
		if err != nil {
			return err
		}
		problems = slices.Concat(problems, untested, replay.UnknownLabels(own, rules.StreamLabels))
		if report, err = w.test(ctx, own, docs); err != nil {
			return err
		}
		if w.log != nil && ctx.Err() == nil {
			scanned = w.log.scan(ctx, set)
		}
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the person has ended it
	}
	problems.Sort()
	var b bytes.Buffer
	if w.clear {
		b.WriteString("\x1b[H\x1b[2J")
	}
	fmt.Fprintf(&b, "%s  %s (%s)\n", began.Format("15:04:05"), w.summary(docs, own, problems, report), w.now().Sub(began).Round(10*time.Millisecond))
	w.details(&b, problems, report)
	b.WriteString(scanned)
	if _, err := w.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// batch is how many rules are tested between two looks at the context.
const batch = 16

// test runs the tests of the rules whose files changed; the other results are those of before.
func (w *packWatch) test(ctx context.Context, own []*rules.Rule, docs []*rules.Document) (all replay.TestReport, err error) {
	sums := map[string]string{}
	for _, d := range docs {
		sums[d.File()] = d.SHA256()
	}
	key := func(r *rules.Rule) string {
		return strings.Join([]string{r.Alert, r.File, sums[r.File], r.Hash}, "\x00") // overrides change the hash
	}
	var changed []*rules.Rule
	fresh := map[string]replay.TestReport{}
	for _, r := range own {
		if one, ok := w.tested[key(r)]; ok {
			fresh[key(r)] = one
		} else {
			changed = append(changed, r)
		}
	}
	for some := range slices.Chunk(changed, batch) {
		if ctx.Err() != nil {
			return all, nil
		}
		report, err := replay.RunTests(some, replay.TestOptions{Mutate: w.mutate})
		if err != nil {
			return all, err
		}
		for _, r := range some {
			fresh[key(r)] = resultsOf(r, report)
		}
	}
	for _, r := range own {
		all.Results = append(all.Results, fresh[key(r)].Results...)
		all.Survivors = append(all.Survivors, fresh[key(r)].Survivors...)
	}
	w.tested = fresh
	return all, nil
}

// resultsOf returns the results of one rule.
func resultsOf(r *rules.Rule, of replay.TestReport) (out replay.TestReport) {
	for _, t := range of.Results {
		if t.Rule == r.Alert {
			out.Results = append(out.Results, t)
		}
	}
	for _, s := range of.Survivors {
		if s.Rule == r.Alert {
			out.Survivors = append(out.Survivors, s)
		}
	}
	return out
}

// summary is the verdict in one line.
func (w *packWatch) summary(docs []*rules.Document, own []*rules.Rule, problems rules.Problems, report replay.TestReport) string {
	errs, warns := len(problems.Errors()), len(problems.Warnings())
	if errs > 0 {
		return fmt.Sprintf("BROKEN: %s, %s; nothing was tested", text.Plural(int64(errs), "error"), text.Plural(int64(warns), "warning"))
	}
	verdict := "ok"
	failed := report.Failed()
	if failed > 0 {
		verdict = "FAILED"
	}
	out := fmt.Sprintf("%s: %s, %s, %s; %s, %d failed", verdict, text.Plural(int64(len(docs)), "file"), text.Plural(int64(len(own)), "rule"),
		text.Plural(int64(warns), "warning"), text.Plural(int64(len(report.Results)), "test"), failed)
	if w.mutate {
		out += fmt.Sprintf(", %s without a test", text.Plural(int64(len(report.Survivors)), "part"))
	}
	return out
}

// details prints the problems, the tests that failed, and the parts that no test covers.
func (w *packWatch) details(b *bytes.Buffer, problems rules.Problems, report replay.TestReport) {
	slices.SortStableFunc(problems, func(x, y rules.Problem) int { return -cmp.Compare(x.Level, y.Level) })
	for i, p := range problems {
		if i == maxShownProblems {
			fmt.Fprintf(b, "and %d more; %s check rules lists all\n", len(problems)-i, w.name)
			break
		}
		fmt.Fprintln(b, p.String())
	}
	n := 0
	for _, t := range report.Results {
		if len(t.Failures) == 0 {
			continue
		}
		if n++; n > maxShownProblems {
			continue
		}
		fmt.Fprintf(b, "FAIL %s:%d: %s / %s\n", t.File, t.Line, t.Rule, redact.Sanitise(t.Test))
		for _, failure := range t.Failures {
			fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(failure, "\n", "\n  "))
		}
	}
	if n > maxShownProblems {
		fmt.Fprintf(b, "and %d more tests fail; %s test rules lists all\n", n-maxShownProblems, w.name)
	}
	for i, s := range report.Survivors {
		if i == maxShownProblems {
			fmt.Fprintf(b, "and %s; %s test rules --mutate lists all\n", text.Plural(len(report.Survivors)-i, "more part"), w.name)
			break
		}
		fmt.Fprintf(b, "UNPROTECTED %s:%d: %s: %s\n", s.File, s.Line, s.Rule, text.Shorten(s.Part, maxShownPart))
	}
}

// maxShownPart bounds the text of a part of a rule, in bytes.
const maxShownPart = 200
