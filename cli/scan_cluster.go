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

	"crowsnest/internal/kube"
	"crowsnest/internal/lazyre"
	"crowsnest/lab/cluster"
	"crowsnest/lab/inputs"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
)

type clusterFlags struct {
	isUsed              bool
	kubeconfig, context string
	namespaces          []string
	all                 bool
	since, until        *instant
	maxBytes            int64
}

const sinceDefault = time.Hour

func (f *clusterFlags) add(cmd *cobra.Command) {
	f.since, f.until = newSince(sinceDefault), &instant{}
	flags := cmd.Flags()
	flags.BoolVar(&f.isUsed, "cluster", false, "read a running cluster, with your kubeconfig")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "with --cluster: kubeconfig `FILE` (default: as kubectl)")
	flags.StringVar(&f.context, "context", "", "with --cluster: `NAME` of the context (default: the current one)")
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "with --cluster: only these namespaces, `NAME`,...")
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "with --cluster: all namespaces")
	flags.Var(f.since, "since", "with --cluster: start of the range to read: a duration before its end, or an RFC 3339 time")
	flags.Var(f.until, "until", "with --cluster: end of the range to read: an RFC 3339 time (default: now)")
	flags.Var(numberVar(&f.maxBytes, 1<<30, 1<<20, 1<<40), "max-bytes", "with --cluster: maximum number of bytes of logs; of the largest logs only the newest lines are read")
}

var namespaceForm = lazyre.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (f *clusterFlags) checkArgs(args []string, follow bool) error {
	if !f.isUsed {
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

func (f *clusterFlags) kubeconfigFiles(getenv func(string) string) []string {
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

// clusterInput is the downloaded data of a cluster. It is empty if files are read instead.
type clusterInput struct {
	*cluster.Snapshot
	title string
	dir   string
	end   time.Time
}

// fromCluster downloads the logs of a cluster into the temporary folder of find. It also sets the functions in find
// that return labels and names of the downloaded logs.
func (c *cli) fromCluster(ctx context.Context, f clusterFlags, set *rules.Set, find *inputs.Options) (*clusterInput, error) {
	now := time.Now()
	in := &clusterInput{dir: filepath.Join(find.Unpack, "cluster"), end: now}
	if f.until.text != "" {
		in.end = f.until.at
	}
	since := f.since.resolve(in.end)
	if !since.Before(in.end) {
		return nil, usageErrorf("--since: %s is not before %s", since.Format(time.RFC3339), in.end.Format(time.RFC3339))
	}
	client := kube.New(kube.Options{Files: f.kubeconfigFiles(c.getenv), Context: f.context})
	defer client.Close()
	place, err := client.CurrentContext()
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
		Client: client, Namespaces: f.namespaces, All: f.all, Set: set, LikelyNamespace: place.Namespace, Since: since, Until: f.until.at, Now: now,
		MaxBytes: f.maxBytes, Dir: in.dir, Title: in.title, Progress: read,
	})
	if err != nil {
		return nil, err
	}
	find.PathLabels, find.Name = in.Labels, in.Name
	return in, nil
}

// prepareReading sets the options for reading downloaded logs. All labels of a downloaded container are known, and all
// lines up to the end of the range are present.
func (in *clusterInput) prepareReading(logs []replay.Input, opt *replay.ScanOptions) {
	if in.dir == "" {
		return
	}
	for i := range logs {
		logs[i].Exact = true
	}
	opt.End, opt.UntilEOF = in.end, true
}

// readError returns an error if a part of the cluster that should have been read was not read.
func (in *clusterInput) readError() error {
	switch {
	case in.Err != nil:
		return fmt.Errorf("only a part of the cluster was read: %w", in.Err)
	case slices.ContainsFunc(in.NotSeen, func(u cluster.UnreadGroup) bool { return u.Failed }):
		return errors.New("a part of the cluster could not be read; it is listed as \"not seen\"")
	}
	return nil
}

func (in *clusterInput) reportUnread(c *cli) {
	all := in.NotSeen
	for _, u := range all[:min(len(all), maxSkipped)] {
		fmt.Fprintf(c.err, "not seen: %s\n", redact.Sanitise(u.String()))
	}
	if n := len(all) - maxSkipped; n > 0 {
		fmt.Fprintf(c.err, "not seen: %d more; -o json lists all\n", n)
	}
}
