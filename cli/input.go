package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/lab/cluster"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/sources/kubelet"
)

const maxSkipped = 20

// maxMemory is the soft memory limit of a command in bytes. Near it, garbage is collected as often as necessary. A
// command that reads logs then needs less than 256 MiB, including the pages of the program itself.
const maxMemory = 192 << 20

type streamFlags struct {
	labels []string
	strict bool // whether a selector does not match if the value of a label is unknown
}

// add adds the flags. when is the beginning of their help texts, which says when they apply.
func (f *streamFlags) add(cmd *cobra.Command, when string) {
	cmd.Flags().StringArrayVar(&f.labels, "label", nil, when+"label of every stream, `name=value` (repeatable)")
	cmd.Flags().BoolVar(&f.strict, "strict-labels", false, when+"an unknown label satisfies no selector")
}

// logArgs returns the arguments of a command that reads logs. If there are none, the command reads standard input,
// unless that is a terminal. In that case, logArgs returns an error with the text needs.
func (c *cli) logArgs(args []string, needs string) ([]string, error) {
	switch {
	case len(args) > 0:
		return args, nil
	case isTerminal(c.in):
		return nil, usageErrorf("%s", needs)
	}
	return []string{inputs.Stdin}, nil
}

type logInput struct {
	args    []string
	labels  []string // values of --label
	cluster clusterFlags
	set     *rules.Set // rules, which determine the part of a cluster that is read
	times   int        // number of times that the logs are read
}

// recordedLogs contains the logs that a command reads. The caller must call close.
type recordedLogs struct {
	logs     []replay.Input
	account  *inputs.Account
	err      error         // error that names the logs that cannot be read
	names    []string      // arguments in the form for people
	cluster  *clusterInput // downloaded cluster; empty if files are read
	progress *progress
	remove   func() error
}

// collect finds the logs of a command, or downloads the logs of a cluster. It creates a temporary folder for unpacked
// files. The folder is also removed if a signal ends the process.
func (c *cli) collect(ctx context.Context, from logInput) (*recordedLogs, error) {
	labels, err := parseLabels(from.labels)
	if err != nil {
		return nil, err
	}
	folder, err := makeFolder()
	if err != nil {
		return nil, err
	}
	release := onSignal(func() { removeAll(folder.path) }, c.outlivesInterrupt)
	limit := debug.SetMemoryLimit(-1)
	if c.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(maxMemory)
	}
	in := &recordedLogs{remove: func() error {
		debug.SetMemoryLimit(limit)
		release()
		return folder.remove()
	}}
	opt := inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in, Unpack: folder.path}
	in.names, in.cluster = from.args, &clusterInput{Snapshot: &cluster.Snapshot{}}
	if from.cluster.isUsed {
		if in.cluster, err = c.fromCluster(ctx, from.cluster, from.set, &opt); err != nil {
			return nil, errors.Join(err, in.remove())
		}
		from.args, in.names = []string{in.cluster.dir}, []string{in.cluster.title}
	}
	in.progress = c.startProgress("reading", nil)
	in.logs, in.account, in.err = inputs.Collect(from.args, opt)
	in.progress.countReading(in.logs, from.times)
	return in, nil
}

func (in *recordedLogs) close() error {
	in.progress.end()
	return in.remove()
}

// onSignal calls clean before a signal ends the process, until release is called. If a signal arrived before release,
// release ends the process. It waits for the signal, because a command whose reader has exited gets a write error and a
// signal at the same time. With outlivesInterrupt, only a second SIGINT ends the process.
func onSignal(clean func(), outlivesInterrupt bool) (release func()) {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := range signals {
			if s == syscall.SIGINT && outlivesInterrupt {
				outlivesInterrupt = false
				continue
			}
			dieBySignal(s, clean)
		}
	}()
	return func() {
		signal.Stop(signals) // after this call, every signal that has arrived is in the channel
		close(signals)
		<-ended
	}
}

// dieBySignal ends the process by sending itself the signal s, so that the parent process sees the signal. It returns
// only for a SIGPIPE that the output did not cause, for example one from a connection.
func dieBySignal(s os.Signal, clean func()) {
	if s != syscall.SIGPIPE {
		clean()
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
		select {}
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if closedPipe(f) {
			clean()
			signal.Reset(s)
			_, _ = f.WriteString("\n") // Go ignores a SIGPIPE that kill sends, but not a SIGPIPE that results from a write to standard output
		}
	}
}

func closedPipe(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&unix.POLLERR != 0
}

// removeAll removes a folder, even while other goroutines may still create files in it.
func removeAll(dir string) {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

func (c *cli) reportSkipped(account *inputs.Account) {
	all := account.Skipped()
	for _, s := range all[:min(len(all), maxSkipped)] {
		if len(s.Names) == 1 {
			fmt.Fprintf(c.err, "skipped %s: %s\n", s.Names[0], s.Problem)
		} else {
			fmt.Fprintf(c.err, "skipped %s and %s: %s\n", s.Names[0], text.Plural(len(s.Names)-1, "more file"), s.Problem)
		}
	}
	more := 0
	for _, s := range all[min(len(all), maxSkipped):] {
		more += len(s.Names)
	}
	if more > 0 {
		fmt.Fprintf(c.err, "skipped %s; scan -o json lists all\n", text.Plural(more, "more file"))
	}
}

var errEmpty = errors.New("the input has no text: this does not mean that all is well")

// checkRead returns an error if no line was read. The error is err if it is set, because err contains the reason, and
// errEmpty otherwise. With JSON output, checkRead returns nil, because the document is written anyway.
func checkRead(lines int64, form string, err error) error {
	switch {
	case lines > 0 || form == "json":
		return nil
	case err != nil:
		return err
	}
	return errEmpty
}

// checkInput reports the inputs that were skipped or whose format was not recognized. It returns an error if the result
// is meaningless. That is the case if nothing was read, or if nothing was found and too few lines had a known format.
func checkInput(w io.Writer, r replay.Report, account *inputs.Account) error {
	if r.Lines == 0 {
		return errEmpty
	}
	for _, note := range account.Notes() {
		fmt.Fprintln(w, note)
	}
	if none := account.NotUnderstood(); len(none) > 0 {
		return fmt.Errorf("no line of %s has a timestamp in a known format, so the input was not understood: this does not mean that all is well; provide the logs as the containers wrote them", nameAndCount(none))
	}
	if len(r.Untimed) > 0 {
		fmt.Fprintf(w, "no line of %s has a timestamp in a known format; the lines were read as plain text, in their order\n", nameAndCount(r.Untimed))
	}
	found := r.Fired() > 0 || r.Rules == nil && r.Hits > 0
	for _, d := range account.Doubts() {
		said := fmt.Sprintf("only %d of %d lines of %s are in a known format", d.Understood, d.Lines, d.Name)
		if !found {
			return fmt.Errorf("%s: this does not mean that all is well; provide the logs as the containers wrote them", said)
		}
		fmt.Fprintf(w, "%s; the other lines may contain more failures\n", said)
	}
	return nil
}

func nameAndCount(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// Maximum numbers of namespaces, and of rules for each namespace, that reportIgnored lists.
const (
	maxIgnored      = 10
	maxIgnoredRules = 3
)

// reportIgnored reports lines that match a rule but come from namespaces that are not trusted as infrastructure.
func reportIgnored(w io.Writer, r replay.Report) {
	lines := map[string]int64{} // number of lines by namespace
	names := map[string][]string{}
	for x, n := range r.UntrustedLines {
		lines[x.Namespace] += n
		names[x.Namespace] = append(names[x.Namespace], x.Rule)
	}
	all := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(lines[b], lines[a]), cmp.Compare(a, b))
	})
	for _, namespace := range all[:min(len(all), maxIgnored)] {
		rs := slices.Sorted(slices.Values(names[namespace]))
		more := ""
		if n := len(rs) - maxIgnoredRules; n > 0 {
			more = " and " + text.Plural(n, "more rule")
		}
		fix := ""
		if namespaces.Check("+"+namespace) == nil {
			fix = "; to include it: --infrastructure-namespaces=+" + namespace + ", and in the configuration rules.infrastructure_namespaces: [+" + namespace + "]"
		}
		fmt.Fprintf(w, "ignored %s of namespace %s for %s%s: it is not an infrastructure namespace%s\n",
			text.Plural(int64(lines[namespace]), "line"), redact.Sanitise(namespace), strings.Join(rs[:min(len(rs), maxIgnoredRules)], ", "), more, fix)
	}
	if n := len(all) - maxIgnored; n > 0 {
		fmt.Fprintf(w, "ignored lines of %s; to include all: --infrastructure-namespaces='*'\n", text.Plural(n, "more namespace"))
	}
}

// reportUnstated lists the labels that the input does not contain. The steps of the failures contain placeholders in
// upper case for these labels. A person must replace the placeholders before running the steps.
func reportUnstated(w io.Writer, r replay.Report) {
	failures, names := int64(0), map[string]bool{}
	note := func(x *episodes.Episode) {
		if x.Rule == nil {
			return
		}
		found := false
		for _, name := range x.Rule.By {
			if x.Labels[name] == "" && strings.Contains(x.Annotations["remediation"], strings.ToUpper(name)) {
				names[name], found = true, true
			}
		}
		if found {
			failures++
		}
	}
	for i := range r.Alerts {
		note(&r.Alerts[i].Episode)
	}
	for i := range r.Findings {
		if r.Findings[i].Doubt != replay.Recovered { // no steps are listed for a failure that has recovered
			note(&r.Findings[i].Episode)
		}
	}
	if failures == 0 {
		return
	}
	var shown, flags []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		shown = append(shown, strings.ToUpper(name))
		flags = append(flags, "--label "+name+"=NAME")
	}
	fmt.Fprintf(w, "the steps of %s contain the placeholders %s, because the input does not state these labels; replace the placeholders before you run a step, or scan with %s\n",
		text.Plural(failures, "failure"), strings.Join(shown, " and "), strings.Join(flags, " "))
}

// tempFolder is a temporary folder, which is locked while its process lives.
type tempFolder struct {
	path string
	lock *os.File
}

// makeFolder creates a temporary folder. It also removes the folders that killed processes have not removed.
func makeFolder() (*tempFolder, error) {
	const name = "crowsnest-"
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), name+"[0-9]*"))
	for _, path := range old {
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
			continue
		}
		if t, err := lockFolder(path); err == nil {
			_ = t.remove()
		}
	}
	for range 10 {
		path, err := os.MkdirTemp("", name)
		if err != nil {
			return nil, fmt.Errorf("create a temporary folder: %w; set TMPDIR to a folder that can be written", err)
		}
		if t, err := lockFolder(path); err == nil {
			return t, nil
		}
	}
	return nil, errors.New("cannot keep a temporary folder, because other processes remove it; set TMPDIR to another folder")
}

// lockFolder locks a folder. It returns an error if a living process holds the lock, or if
// another process has just removed the folder.
func lockFolder(path string) (*tempFolder, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &tempFolder{path, f}, nil
}

func (t *tempFolder) remove() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}
