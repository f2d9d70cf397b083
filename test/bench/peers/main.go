// Command peers compares the CPU time of whole processes: crowsnest, Hyperscan,
// mtail, SEC, ripgrep and wc, on the same logs and rules. Before it measures,
// it compares the counts with a plain reference.
//
//	make bench-peers
//	go run ./test/bench/peers -crowsnest bin/crowsnest -size 200MB -peers hyperscan -only-sets
//
// A peer that is not installed is skipped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"crowsnest/test/traffic"
)

// options of a comparison. Sizes are in bytes.
type options struct {
	crowsnest string // the binary
	cache     string // folder of generated files
	size      int64  // of the logs for crowsnest, Hyperscan, ripgrep and wc
	small     int64  // of the log for peers that try each rule on each line
	check     int64  // of the logs that the reference counts
	compare   int64  // of the logs on which crowsnest and Hyperscan must agree
	rounds    int
	sets      []int // numbers of rules, in ascending order
	peers     []string
	checkOnly bool
	onlySets  bool           // only the sets of rules, no other logs and cores
	seed      uint64         // of the logs
	terms     []traffic.Rule // of published rules; nil: there are none
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{sets: []int{10, 100, 1000, 5000}}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.StringVar(&o.crowsnest, "crowsnest", "bin/crowsnest", "the binary")
	f.StringVar(&o.cache, "cache", "", "folder for logs and rules (default crowsnest/bench in the user's cache)")
	f.IntVar(&o.rounds, "rounds", 3, "runs of everything, one after the other; the median counts")
	f.BoolVar(&o.onlySets, "only-sets", false, "compare 10, 100 and 1000 rules and the published sets on CRI logs, and nothing else")
	f.Uint64Var(&o.seed, "seed", 0, "another number makes other logs of the same kind")
	terms := f.String("terms", "", "folder with published rules (CREs), whose terms are a further set")
	f.BoolVar(&o.checkOnly, "check-only", false, "compare what is counted and measure nothing")
	peers := f.String("peers", "hyperscan,mtail,sec,ripgrep,wc", "which to compare with, of those that are installed")
	sizes := map[string]*int64{"size": &o.size, "small": &o.small, "check": &o.check, "compare": &o.compare}
	texts := map[string]*string{
		"size":    f.String("size", "1GB", "size of the logs"),
		"small":   f.String("small", "10MB", "size of the log for mtail and SEC; figures are per line"),
		"check":   f.String("check", "2MB", "size of the logs that the plain reference counts"),
		"compare": f.String("compare", "100MB", "size of the logs on which crowsnest and Hyperscan must agree"),
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for name, text := range texts {
		n, err := traffic.ParseSize(*text)
		if err != nil {
			return o, fmt.Errorf("-%s: %w", name, err)
		}
		*sizes[name] = n
	}
	if *terms != "" {
		var err error
		if o.terms, err = readTerms(*terms); err != nil {
			return o, err
		}
	}
	if o.onlySets {
		o.sets = []int{10, 100, 1000}
	}
	o.peers = strings.Split(*peers, ",")
	if o.rounds < 1 {
		return o, errors.New("-rounds is at least 1")
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("find a folder for logs: %w; use -cache", err)
		}
		o.cache = filepath.Join(dir, "crowsnest", "bench")
	}
	return o, nil
}

// run compares the counts, then measures.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := os.MkdirAll(o.cache, 0o755); err != nil {
		return fmt.Errorf("make the folder for logs: %w", err)
	}
	if _, err := os.Stat(o.crowsnest); err != nil {
		return fmt.Errorf("find crowsnest: %w; run make build, or use -crowsnest", err)
	}
	programs := find(ctx, o, out)
	if err := check(ctx, o, programs, out); err != nil {
		return err
	}
	if o.checkOnly {
		return nil
	}
	return compare(ctx, o, programs, out)
}
