package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"crowsnest/internal/lazyre"
	"crowsnest/kube"
	"crowsnest/lab/cluster"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

const clusterText = `--cluster reads a running cluster instead, as kubectl would and with the same
kubeconfig: logs of containers and of their previous instances, Events, and the
states of objects. It reads the namespaces of the infrastructure and those where a
component runs that a rule is about; -n and -A select others. It writes nothing to
the cluster and reads no Secrets. The clock stops at the time of reading: a failure
that must last is certain only if it has lasted. What may not be read or is not there
is listed as "not seen", with the rule that a role needs. With --until there are no
states of objects: the API has only those of now.`

// clusterFlags select what is read from a running cluster.
type clusterFlags struct {
	on                  bool
	kubeconfig, context string
	namespaces          []string
	all                 bool
	since, until        *instant
	maxBytes            int64
}

// sinceDefault is how far back a cluster is read.
const sinceDefault = time.Hour

func (f *clusterFlags) add(cmd *cobra.Command) {
	f.since, f.until = newSince(sinceDefault), &instant{}
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "cluster", false, "read a running cluster, with your kubeconfig")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "with --cluster: kubeconfig `FILE` (default: as kubectl)")
	flags.StringVar(&f.context, "context", "", "with --cluster: `NAME` of the context (default: the current one)")
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "with --cluster: only these namespaces, `NAME`,...")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "with --cluster: all namespaces")
	flags.Var(f.since, "since", "with --cluster: start of the range to read: a duration before its end, or an RFC 3339 time")
	flags.Var(f.until, "until", "with --cluster: end of the range to read: an RFC 3339 time (default: now)")
	flags.Var(numberVar(&f.maxBytes, 1<<30, 1<<20, 1<<40), "max-bytes", "with --cluster: how many bytes of logs to read; the newest lines of those that have too many")
}

var namespaceForm = lazyre.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// check returns an error about arguments that exclude each other.
func (f *clusterFlags) check(args []string, follow bool) error {
	if !f.on {
		for name, set := range map[string]bool{
			"kubeconfig": f.kubeconfig != "", "context": f.context != "", "namespace": len(f.namespaces) > 0, "all-namespaces": f.all,
			"since": f.since.String() != newSince(sinceDefault).String(), "until": f.until.text != "",
		} {
			if set {
				return usageErrorf("--%s needs --cluster", name)
			}
		}
		return nil
	}
	switch {
	case len(args) > 0:
		return usageErrorf("give files or --cluster, not both")
	case follow:
		return usageErrorf("--cluster reads once; to follow a cluster, run the daemon, or pipe kubectl logs -f into scan --follow")
	case f.all && len(f.namespaces) > 0:
		return usageErrorf("--all-namespaces includes those of --namespace; use one of them")
	}
	for _, name := range f.namespaces {
		if !namespaceForm.MatchString(name) {
			return usageErrorf("--namespace: %q is not the name of a namespace", name)
		}
	}
	return nil
}

// files returns the kubeconfig files that kubectl would read.
func (f *clusterFlags) files(getenv func(string) string) []string {
	files := []string{f.kubeconfig}
	if f.kubeconfig == "" {
		files = filepath.SplitList(getenv("KUBECONFIG"))
	}
	files = slices.DeleteFunc(files, func(s string) bool { return s == "" })
	if len(files) == 0 {
		files = []string{filepath.Join(getenv("HOME"), ".kube", "config")}
	}
	return files
}

// clusterInput is what was downloaded from a cluster. Its methods accept nil, which
// means that files are read.
type clusterInput struct {
	*cluster.Snapshot
	title string
	dir   string
	end   time.Time
}

// fromCluster downloads a cluster into the temporary folder of find, and makes find read
// it. It returns nil without --cluster.
func (c *cli) fromCluster(ctx context.Context, f clusterFlags, set *rules.Set, find *inputs.Options) (*clusterInput, error) {
	if !f.on {
		return nil, nil
	}
	now := time.Now()
	in := &clusterInput{dir: filepath.Join(find.Unpack, "cluster"), end: now}
	if f.until.text != "" {
		in.end = f.until.at
	}
	since := f.since.from(in.end)
	if !since.Before(in.end) {
		return nil, usageErrorf("--since: %s is not before %s", since.Format(time.RFC3339), in.end.Format(time.RFC3339))
	}
	client := kube.New(kube.Options{Files: f.files(c.getenv), Context: f.context})
	defer client.Close()
	place, err := client.Place()
	if err != nil {
		return nil, err
	}
	in.title = strings.TrimSpace("cluster " + place.Context)
	if err := os.Mkdir(in.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create a temporary folder: %w", err)
	}
	read := &cluster.Progress{}
	progress := c.startProgress("reading "+redact.Sanitise(in.title), func() (float64, string) {
		logs, all := read.Logs.Load(), read.AllLogs.Load()
		if all == 0 {
			return 0, "pods and objects"
		}
		return float64(logs) / float64(all), fmt.Sprintf("%d of %d logs, %s", logs, all, bytesText(read.Bytes.Load()))
	})
	defer progress.end()
	in.Snapshot, err = cluster.Download(ctx, cluster.Config{
		Client: client, Namespaces: f.namespaces, All: f.all, Set: set, Home: place.Namespace, Since: since, Until: f.until.at, Now: now,
		MaxBytes: f.maxBytes, Dir: in.dir, Title: in.title, Progress: read,
	})
	if err != nil {
		return nil, err
	}
	find.PathLabels, find.Name = in.Labels, in.Name
	return in, nil
}

// args returns the arguments to read: those of the command, or the download.
func (in *clusterInput) args(args []string) []string {
	if in == nil {
		return args
	}
	return []string{in.dir}
}

// names returns the arguments for people.
func (in *clusterInput) names(args []string) []string {
	if in == nil {
		return args
	}
	return []string{in.title}
}

// read prepares the reading of the inputs. All labels of a container are known, and what
// was logged until the end of the range is.
func (in *clusterInput) read(logs []replay.Input, opt *replay.ScanOptions) {
	if in == nil {
		return
	}
	for i := range logs {
		logs[i].Exact = true
	}
	opt.End, opt.UntilEOF = in.end, true
}

// notSeen returns what was not read.
func (in *clusterInput) notSeen() []cluster.Unseen {
	if in == nil {
		return nil
	}
	return in.NotSeen
}

// failed returns an error if something was not read that should have been.
func (in *clusterInput) failed() error {
	switch {
	case in == nil:
		return nil
	case in.Err != nil:
		return fmt.Errorf("the cluster was not read to its end: %w", in.Err)
	case slices.ContainsFunc(in.NotSeen, func(u cluster.Unseen) bool { return u.Failed }):
		return errors.New("a part of the cluster could not be read, which is listed as not seen")
	}
	return nil
}

// report lists what was not read.
func (in *clusterInput) report(c *cli) {
	all := in.notSeen()
	for _, u := range all[:min(len(all), maxSkipped)] {
		fmt.Fprintf(c.err, "not seen: %s\n", redact.Sanitise(u.String()))
	}
	if n := len(all) - maxSkipped; n > 0 {
		fmt.Fprintf(c.err, "not seen: %d more; -o json lists all\n", n)
	}
}
