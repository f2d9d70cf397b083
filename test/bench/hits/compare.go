package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"
)

type command struct {
	name string
	args []string
}

// result is what a command printed, and its exit code.
type result struct {
	out, problems []byte
	code          int
}

func printed(ctx context.Context, binary string, args []string) (result, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return result{}, err
	}
	return result{out.Bytes(), problems.Bytes(), cmd.ProcessState.ExitCode()}, nil
}

// times of lines that state none are those of the scan.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\d+(h\d+)?m\d+s`)

// same returns an error if the builds do not print the same. If the older one does not print
// the same twice, times are not compared.
func same(ctx context.Context, o options, args []string) error {
	var all [3]result
	for i, binary := range []string{o.base, o.base, o.new} {
		r, err := printed(ctx, binary, args)
		if err != nil {
			return fmt.Errorf("run %s %v: %w", binary, args, err)
		}
		all[i] = r
	}
	old, again, now := all[0], all[1], all[2]
	if !old.equal(again) {
		old, now = old.timeless(), now.timeless()
	}
	if !old.equal(now) {
		return fmt.Errorf("%v: the builds do not print the same: %s", args, difference(old, now))
	}
	return nil
}

func (r result) equal(o result) bool {
	return r.code == o.code && bytes.Equal(r.out, o.out) && bytes.Equal(r.problems, o.problems)
}

func (r result) timeless() result {
	return result{times.ReplaceAll(r.out, []byte("TIME")), times.ReplaceAll(r.problems, []byte("TIME")), r.code}
}

// difference describes the first difference.
func difference(a, b result) string {
	if a.code != b.code {
		return fmt.Sprintf("exit code %d, then %d", a.code, b.code)
	}
	x, y := a.out, b.out
	if bytes.Equal(x, y) {
		x, y = a.problems, b.problems
	}
	k := 0
	for k < min(len(x), len(y)) && x[k] == y[k] {
		k++
	}
	around := func(b []byte) []byte { return b[max(0, k-100):min(len(b), k+100)] }
	return fmt.Sprintf("after %d bytes %q, then %q", k, around(x), around(y))
}

// cpu returns the user and system time of a command, whose output is discarded.
func cpu(ctx context.Context, binary string, args []string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("run %s %v: %w", binary, args, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// measure prints the CPU of both builds, and the ratios of the pairs.
func measure(ctx context.Context, o options, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "command\tbase s, min\tmedian\tnew s, min\tmedian\tnew/base, min\tmedian\tmax")
	for _, c := range measured(o) {
		var base, now, ratios []float64
		for range o.rounds {
			a, err := cpu(ctx, o.base, c.args)
			if err != nil {
				return err
			}
			b, err := cpu(ctx, o.new, c.args)
			if err != nil {
				return err
			}
			base, now, ratios = append(base, a.Seconds()), append(now, b.Seconds()), append(ratios, b.Seconds()/a.Seconds())
		}
		slices.Sort(base)
		slices.Sort(now)
		slices.Sort(ratios)
		n, last := o.rounds/2, o.rounds-1
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", c.name, base[0], base[n], now[0], now[n], ratios[0], ratios[n], ratios[last])
	}
	return w.Flush()
}
