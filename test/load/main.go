// Command load measures the resource use of the daemon: the real binary follows
// the logs of pods with the kubelet source and notifies a fake Alertmanager, as
// on a node.
//
//	go run ./test/load -rules 100 -log cri:1GB            one file, as fast as it can be read
//	go run ./test/load -rules 100 -log cri:100MB -files 200 -mb 10 -for 30s
//	                                                      its lines at a rate, over many files
//	go run ./test/load ... -rules 5000 -reload 4900       meanwhile the rules change again and again
//
// The rules are a number of rules, a pack, or a folder of packs; the log is a
// file, or a kind and size of test/traffic.
//
// It prints the CPU time of the whole process (user and system), the maximum
// resident set, the lines, and with -probe the time from a line to its alert.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"crowsnest/test/daemon"
	"crowsnest/test/traffic"
)

// options of one measurement.
type options struct {
	binary string
	rules  string        // folder or file, or a number of rules
	reload string        // alternates with rules; "": none
	log    string        // file with CRI lines, or kind:size
	probe  time.Duration // interval between lines that alert; 0: none
	files  int           // 0: log itself is one file
	lines  int           // per second, over all files
	mb     float64       // per second; overrides lines
	warm   time.Duration // before the measurement begins
	span   time.Duration // of the measurement
	every  time.Duration // between reloads
	dir    string        // for all written files
	pprof  string        // where to write a CPU profile; "": none
}

func main() {
	o := options{}
	runs := 0
	flag.StringVar(&o.binary, "binary", "", "the daemon; built if empty")
	flag.StringVar(&o.rules, "rules", "100", "number of rules, a pack, a folder of packs, or the word shipped for the packs in the binary")
	flag.StringVar(&o.reload, "reload", "", "rules that take turns with -rules while lines are written")
	flag.StringVar(&o.log, "log", "cri:100MB", "KIND:SIZE, such as cri:1GB or storm:100MB, or a file of CRI lines")
	flag.IntVar(&o.files, "files", 0, "files that are written at a rate; 0: the log is read as it is")
	flag.IntVar(&o.lines, "lines", 10000, "lines a second over all files")
	flag.Float64Var(&o.mb, "mb", 0, "MB a second over all files, in the place of -lines")
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "time before the measurement")
	flag.DurationVar(&o.span, "for", 30*time.Second, "time of the measurement")
	flag.DurationVar(&o.every, "every", 5*time.Second, "time between reloads")
	flag.StringVar(&o.dir, "dir", "", "folder for logs and state, on a disk; a temporary one if empty")
	flag.StringVar(&o.pprof, "pprof", "", "write a CPU profile of the daemon here")
	flag.DurationVar(&o.probe, "probe", 0, "time between lines that alert, to measure latency; 0: none")
	flag.IntVar(&runs, "runs", 3, "runs over the log as it is")
	flag.Parse()
	if err := measure(o, runs); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure creates what is missing, measures and prints.
func measure(o options, runs int) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("/var/tmp", "crowsnest-load-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if err := o.complete(); err != nil {
		return err
	}
	if o.files > 0 {
		r, err := atRate(context.Background(), o)
		if err == nil {
			fmt.Println(r)
		}
		return err
	}
	for range max(1, runs) {
		r, err := backlog(context.Background(), o)
		if err != nil {
			return err
		}
		fmt.Println(r)
	}
	return nil
}

// complete creates missing inputs.
func (o *options) complete() error {
	if o.binary == "" {
		o.binary = filepath.Join(o.dir, "crowsnest")
		if err := daemon.Build(o.binary); err != nil {
			return err
		}
	}
	var err error
	if o.rules, err = rulesFor(o.dir, o.rules); err != nil {
		return err
	}
	if o.reload, err = rulesFor(o.dir, o.reload); err != nil {
		return err
	}
	o.log, err = logFor(o.dir, o.log)
	return err
}

// shippedRules stands for the packs in the binary.
const shippedRules = "shipped"

// rulesFor returns the named folder or file of rules, or generates the given
// number in packs of limited size.
func rulesFor(dir, rules string) (string, error) {
	n, err := strconv.Atoi(rules)
	if err != nil {
		return rules, nil //nolint:nilerr // it is a path
	}
	dir = filepath.Join(dir, "rules-"+rules)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	all := traffic.Rules(n)
	for i := 0; len(all) > 0; i++ {
		k := min(len(all), 1000)
		name := fmt.Sprintf("load-%d", i)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), traffic.Pack(name, all[:k]), 0o600); err != nil {
			return "", err
		}
		all = all[k:]
	}
	return dir, nil
}

// logFor returns the named file, or generates it.
func logFor(dir, log string) (string, error) {
	kind, text, ok := strings.Cut(log, ":")
	size, err := traffic.ParseSize(text)
	if !ok || err != nil {
		return log, nil //nolint:nilerr // it is a path
	}
	name := filepath.Join(dir, kind+"-"+text+".log")
	return name, traffic.WriteFile(name, size, traffic.Options{Kind: traffic.Kind(kind)})
}
