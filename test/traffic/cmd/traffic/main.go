// Command traffic writes logs and rules to measure log matchers.
//
//	traffic logs -kind cri -size 100MB -o cri.log
//	traffic rules -n 1000 -o rules-1000
//	traffic rules -published -o rules-published
//	traffic count -n 1000 cri.log
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"crowsnest/test/traffic"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("use: traffic logs|rules|count [flags]; each knows -h")

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	switch args[0] {
	case "logs":
		return logs(args[1:], out)
	case "rules":
		return writeRules(args[1:])
	case "count":
		return count(args[1:], out)
	}
	return errUsage
}

func logs(args []string, out io.Writer) error {
	f := flag.NewFlagSet("logs", flag.ExitOnError)
	var opt traffic.Options
	kind := f.String("kind", "mix", fmt.Sprint("one of ", traffic.Kinds()))
	size := f.String("size", "100MB", "at least so much, up to the end of a line; KB, MB and GB are powers of ten")
	file := f.String("o", "-", "file; - is standard output")
	f.Uint64Var(&opt.Seed, "seed", 0, "another seed gives other lines")
	f.IntVar(&opt.Rules, "rules", 1000, "size of the rule set that matching lines are drawn from")
	f.Float64Var(&opt.Match, "match", 0, "share of lines that match a rule (0: 0.01, or 0.027 of published)")
	f.Float64Var(&opt.Near, "near", 0, "share of lines that nearly match (0: 0.04)")
	if err := f.Parse(args); err != nil {
		return err
	}
	opt.Kind = traffic.Kind(*kind)
	n, err := traffic.ParseSize(*size)
	if err != nil {
		return err
	}
	if *file == "-" {
		return traffic.Write(out, n, opt)
	}
	return traffic.WriteFile(*file, n, opt)
}

// ruleFlags select a set of rules.
func ruleFlags(f *flag.FlagSet) func() []traffic.Rule {
	n := f.Int("n", 100, fmt.Sprintf("number of rules, at most %d", traffic.MaxRules))
	published := f.Bool("published", false, "the short texts of published rule sets instead")
	return func() []traffic.Rule {
		if *published {
			return traffic.PublishedRules()
		}
		return traffic.Rules(min(*n, traffic.MaxRules))
	}
}

func writeRules(args []string) error {
	f := flag.NewFlagSet("rules", flag.ExitOnError)
	rules := ruleFlags(f)
	dir := f.String("o", "rules", "folder")
	if err := f.Parse(args); err != nil {
		return err
	}
	return traffic.WriteRules(*dir, rules())
}

func count(args []string, out io.Writer) error {
	f := flag.NewFlagSet("count", flag.ExitOnError)
	rules := ruleFlags(f)
	physical := f.Bool("physical", false, "count lines as they are, without joining parts")
	if err := f.Parse(args); err != nil {
		return err
	}
	for _, file := range f.Args() {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c := traffic.Count(b, rules())
		of := c.Joined
		if *physical {
			of = c.Physical
		}
		names := make([]string, 0, len(of))
		for name := range of {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(out, "%s %d\n", name, of[name])
		}
	}
	return nil
}
