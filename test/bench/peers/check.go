package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"crowsnest/test/traffic"
)

// check compares the counts of the programs: with the reference on a small log
// of every kind, and crowsnest with Hyperscan on a larger one.
func check(ctx context.Context, o options, programs map[string]program, out io.Writer) error {
	for _, kind := range traffic.Kinds() {
		if err := checkKind(ctx, o, programs, kind); err != nil {
			return err
		}
		fmt.Fprintf(out, "counts on %s: those of the plain reference\n", kind)
	}
	if _, ok := programs["hyperscan"]; !ok {
		return nil
	}
	for _, kind := range []traffic.Kind{traffic.CRI, traffic.Published} {
		if err := checkLarge(ctx, o, programs, kind, o.numbers(kind)); err != nil {
			return err
		}
		fmt.Fprintf(out, "counts on %d MB of %s: crowsnest's and Hyperscan's differ by what joining parts explains, and by nothing else\n", o.compare/1e6, kind)
	}
	if o.terms == nil {
		return nil
	}
	if err := checkLarge(ctx, o, programs, traffic.CRI, []int{terms}); err != nil {
		return err
	}
	fmt.Fprintf(out, "counts of %d published terms: the same\n", len(o.terms))
	return nil
}

// numbers returns the sets of rules to check for a kind of log.
func (o options) numbers(kind traffic.Kind) []int {
	if kind == traffic.Published {
		return []int{published}
	}
	return slices.DeleteFunc(slices.Clone(o.sets), func(n int) bool { return n > 1000 })
}

// input returns a log of a kind, its content, and the largest set of rules that
// is compared on it.
func (o options) input(kind traffic.Kind, numbers []int, size int64) (log string, text []byte, largest ruleSet, err error) {
	if log, err = o.log(kind, size); err != nil {
		return "", nil, largest, err
	}
	if text, err = os.ReadFile(log); err != nil {
		return "", nil, largest, fmt.Errorf("read the log: %w", err)
	}
	largest, err = o.ruleSet(numbers[len(numbers)-1])
	return log, text, largest, err
}

func checkKind(ctx context.Context, o options, programs map[string]program, kind traffic.Kind) error {
	numbers := o.numbers(kind)
	log, text, largest, err := o.input(kind, numbers, o.check)
	if err != nil {
		return err
	}
	// The reference is slow, and each set contains the smaller ones.
	want := traffic.Count(text, largest.rules)
	for _, n := range numbers {
		rules, err := o.ruleSet(n)
		if err != nil {
			return err
		}
		for _, p := range programs {
			if p.counts == nil || slices.Contains(slowPeers, p.name) && (n != peerRules || kind != traffic.CRI) {
				continue
			}
			got, err := p.count(ctx, rules, log)
			if err != nil {
				return err
			}
			if err := difference(got, expected(p, rules, text, want)); err != nil {
				return fmt.Errorf("%s, %s, %s rules: what it counts is not what the reference counts: %w", p.name, kind, rules.name, err)
			}
		}
	}
	return nil
}

// expected returns the counts that a program should have.
func expected(p program, rules ruleSet, log []byte, all traffic.Counts) map[string]int64 {
	switch p.name {
	case "crowsnest":
		return only(all.Joined, rules)
	case "ripgrep":
		return map[string]int64{anyRule: traffic.Count(log, rules.rules).AnyPhysical}
	}
	// The others do not join partial lines, and read all of a long line.
	return only(all.Physical, rules)
}

// only returns the counts of these rules.
func only(counts map[string]int64, rules ruleSet) map[string]int64 {
	out := map[string]int64{}
	for _, r := range rules.rules {
		if n := counts[r.Name]; n != 0 {
			out[r.Name] = n
		}
	}
	return out
}

// checkLarge compares crowsnest with Hyperscan on a log that is too large for
// the reference. The reference counts only the lines where the two may differ:
// partial lines, which Hyperscan does not join, and the end of lines that are
// longer than crowsnest reads.
func checkLarge(ctx context.Context, o options, programs map[string]program, kind traffic.Kind, numbers []int) error {
	log, text, largest, err := o.input(kind, numbers, o.compare)
	if err != nil {
		return err
	}
	parts := traffic.Count(traffic.Parts(text), largest.rules)
	for _, n := range numbers {
		rules, err := o.ruleSet(n)
		if err != nil {
			return err
		}
		ours, err1 := programs["crowsnest"].count(ctx, rules, log)
		theirs, err2 := programs["hyperscan"].count(ctx, rules, log)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for _, r := range rules.rules {
			theirs[r.Name] += parts.Joined[r.Name] - parts.Physical[r.Name]
		}
		if err := difference(ours, only(theirs, rules)); err != nil {
			return fmt.Errorf("%s, %s rules: crowsnest and Hyperscan differ by more than joined parts explain: %w", kind, rules.name, err)
		}
	}
	return nil
}

// difference returns the first rule whose counts differ.
func difference(got, want map[string]int64) error {
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if got[name] != want[name] {
			return fmt.Errorf("%s has %d lines, not %d", name, got[name], want[name])
		}
	}
	return nil
}
