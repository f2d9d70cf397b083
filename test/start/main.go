// Command start compares what two binaries cost until they are ready: CPU time of commands
// and of an agent with the shipped packs, and the memory of the agent. It runs them in
// alternation, so that other work on the machine hits both alike, and reports the minimum
// and the median of each.
//
//	go run ./test/start -base /path/to/older/crowsnest -binary bin/crowsnest
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
)

type options struct {
	binaries []string // the older one first; one without -base
	runs     int
	dir      string // with the inputs; removed at the end
}

// figure is one number about a start.
type figure struct {
	what string // such as "cpu of rules list"
	unit string // "ms" or "MiB"
	of   float64
}

func main() {
	base := flag.String("base", "", "`FILE` of an older binary to compare with")
	binary := flag.String("binary", "bin/crowsnest", "`FILE` of the binary")
	runs := flag.Int("runs", 20, "`NUMBER` of runs of each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := options{binaries: []string{*binary}, runs: *runs}
	if *base != "" {
		o.binaries = []string{*base, *binary}
	}
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	o.dir = dir
	for i, b := range o.binaries {
		if o.binaries[i], err = filepath.Abs(b); err != nil {
			return err
		}
	}
	if err := writeInputs(dir); err != nil {
		return err
	}
	all := make([]map[string][]figure, len(o.binaries))
	var order []string
	for n := range o.runs + 1 {
		for i, b := range o.binaries {
			figures, err := measure(ctx, o, b)
			if err != nil {
				return fmt.Errorf("%s: %w", b, err)
			}
			if n == 0 { // the files were not in memory
				all[i] = map[string][]figure{}
				continue
			}
			for _, f := range figures {
				if !slices.Contains(order, f.what) {
					order = append(order, f.what)
				}
				all[i][f.what] = append(all[i][f.what], f)
			}
		}
	}
	return report(o, order, all)
}

// report prints a line for each figure.
func report(o options, order []string, all []map[string][]figure) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	for _, b := range o.binaries {
		fmt.Printf("%s\n", b)
	}
	fmt.Printf("%d runs of each; minimum and median\n", o.runs)
	for _, what := range order {
		fmt.Fprintf(t, "%s\t%s\t", what, all[0][what][0].unit)
		for _, of := range all {
			least, median := summary(of[what])
			fmt.Fprintf(t, "%.1f\t%.1f\t", least, median)
		}
		if len(all) == 2 {
			_, before := summary(all[0][what])
			_, now := summary(all[1][what])
			fmt.Fprintf(t, "x %.2f\t", now/before)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func summary(figures []figure) (least, median float64) {
	sorted := slices.SortedFunc(slices.Values(figures), func(a, b figure) int { return cmp.Compare(a.of, b.of) })
	return sorted[0].of, sorted[len(sorted)/2].of
}
