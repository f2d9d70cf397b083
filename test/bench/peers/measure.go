package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// cost is the resource use of one process.
type cost struct {
	cpu, wall time.Duration // cpu is user and system time
}

// job is one measurement.
type job struct {
	name  string
	args  []string
	env   []string // additional environment
	lines int64    // of its log
	bytes int64
}

// measure runs a process to its end and discards its output.
func measure(ctx context.Context, j job) (cost, error) {
	cmd := exec.CommandContext(ctx, j.args[0], j.args[1:]...)
	cmd.Env = append(os.Environ(), j.env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	began := time.Now()
	err := cmd.Run()
	wall := time.Since(began)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1 && problems.Len() == 0:
		// ripgrep and the like: nothing was found.
	case err != nil:
		return cost{}, fmt.Errorf("run %s: %w: %.300s", j.name, err, problems.String())
	}
	s := cmd.ProcessState
	return cost{cpu: s.UserTime() + s.SystemTime(), wall: wall}, nil
}

// interleave runs every job once per round, so that disturbances of the machine
// affect all equally, and returns medians by the name of the job.
func interleave(ctx context.Context, jobs []job, rounds int, out io.Writer) (map[string]cost, error) {
	all := map[string][]cost{}
	for round := range rounds {
		fmt.Fprintf(out, "round %d of %d\n", round+1, rounds)
		for _, j := range jobs {
			c, err := measure(ctx, j)
			if err != nil {
				return nil, err
			}
			all[j.name] = append(all[j.name], c)
		}
	}
	medians := map[string]cost{}
	for name, runs := range all {
		medians[name] = cost{
			cpu:  median(runs, func(c cost) time.Duration { return c.cpu }),
			wall: median(runs, func(c cost) time.Duration { return c.wall }),
		}
	}
	return medians, nil
}

func median(runs []cost, of func(cost) time.Duration) time.Duration {
	values := make([]time.Duration, len(runs))
	for i, c := range runs {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
