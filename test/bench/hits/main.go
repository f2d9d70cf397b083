// Command hits compares what two builds of crowsnest do after a line matched: first that they
// print the same, byte by byte, then the CPU that they need. Each round runs both builds, so
// that disturbances of the machine affect both.
//
//	go run ./test/bench/hits -base OLD -new NEW
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/gzip"

	"crowsnest/test/traffic"
)

type options struct {
	base, new string
	size      string
	rounds    int
	dir       string
	logs      []string // further logs, to compare what is printed
}

func main() {
	var o options
	flag.StringVar(&o.base, "base", "", "the older build")
	flag.StringVar(&o.new, "new", "bin/crowsnest", "the newer build")
	flag.StringVar(&o.size, "size", "100MB", "size of each log; KB, MB and GB are powers of ten")
	flag.IntVar(&o.rounds, "rounds", 5, "runs of each build")
	flag.StringVar(&o.dir, "dir", "", "folder for logs and rules; a temporary one if empty")
	flag.Parse()
	o.logs = flag.Args()
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hits:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.base == "" {
		return errors.New("-base: name an older build")
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "hits-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	if err := prepare(o); err != nil {
		return err
	}
	for _, args := range compared(o) {
		if err := same(ctx, o, args); err != nil {
			return err
		}
		fmt.Fprintf(out, "equal: %v\n", args)
	}
	return measure(ctx, o, out)
}

// prepare writes logs and rules that do not exist yet.
func prepare(o options) error {
	size, err := traffic.ParseSize(o.size)
	if err != nil {
		return err
	}
	if err := traffic.WriteRules(o.path("rules"), traffic.Rules(100)); err != nil {
		return err
	}
	for _, kind := range traffic.Kinds() {
		log := o.log(kind)
		if _, err := os.Stat(log); err == nil {
			continue
		}
		if err := traffic.WriteFile(log, size, traffic.Options{Kind: kind, Rules: 100}); err != nil {
			return fmt.Errorf("write %s: %w", log, err)
		}
	}
	return pack(o.log(traffic.CRI))
}

// pack writes a log packed with gzip beside it.
func pack(log string) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	f, err := os.Create(log + ".gz")
	if err != nil {
		return err
	}
	w := gzip.NewWriter(f)
	_, err = w.Write(text)
	return errors.Join(err, w.Close(), f.Close())
}

func (o options) path(name string) string { return filepath.Join(o.dir, name) }

// log names a log; its size is part of the name, so that a folder can be used again.
func (o options) log(kind traffic.Kind) string { return o.path(string(kind) + "-" + o.size + ".log") }

func (o options) made() []string { return []string{"--rules", o.path("rules/pack")} }

// compared are the commands whose output is compared.
func compared(o options) (all [][]string) {
	forms := [][]string{
		{"scan", "-o", "json"},
		{"scan", "--until-eof"},
		{"scan", "--hits", "--asides", "-o", "jsonl"},
		{"scan", "--hits", "-o", "json", "--redact=false"},
		{"scan", "--hits"},
	}
	for _, form := range forms {
		for _, kind := range traffic.Kinds() {
			all = append(all, slices.Concat(form, o.made(), []string{o.log(kind)}))
		}
		all = append(all, slices.Concat(form, o.made(), []string{o.log(traffic.CRI) + ".gz", o.log(traffic.Storm)}))
		for _, log := range append([]string{"testdata/incidents", o.log(traffic.CRI)}, o.logs...) { // the shipped rules
			all = append(all, slices.Concat(form, []string{log}))
		}
	}
	for _, kind := range traffic.Kinds() {
		all = append(all, []string{"discover", "-o", "json", "--top", "0", o.log(kind)})
	}
	for _, log := range append([]string{"testdata/incidents"}, o.logs...) {
		all = append(all, []string{"discover", "-o", "json", "--top", "0", log}, []string{"discover", "--rules", "none", "--rules-out", "-", log})
	}
	return all
}

// measured are the commands that are measured, by name.
func measured(o options) []command {
	return []command{
		{"storm, alerts", slices.Concat([]string{"scan"}, o.made(), []string{o.log(traffic.Storm)})},
		{"storm, hits", slices.Concat([]string{"scan", "--hits", "-o", "jsonl"}, o.made(), []string{o.log(traffic.Storm)})},
		{"cri, alerts", slices.Concat([]string{"scan"}, o.made(), []string{o.log(traffic.CRI)})},
		{"cri, shipped rules", []string{"scan", o.log(traffic.CRI)}},
		{"cri in gzip", slices.Concat([]string{"scan"}, o.made(), []string{o.log(traffic.CRI) + ".gz"})},
		{"discover, cri", []string{"discover", o.log(traffic.CRI)}},
		{"discover, mix", []string{"discover", o.log(traffic.Mix)}},
	}
}
