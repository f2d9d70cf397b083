package main

import (
	"fmt"
	"io"
	"runtime"
	"time"
)

// report prints tables in Markdown.
type report struct {
	jobs  []job
	costs map[string]cost
	out   io.Writer
}

func (r report) print() {
	fmt.Fprintf(r.out, "\n| what | CPU s | MB/s | ns a line | wall s |\n|---|---|---|---|---|\n")
	for _, j := range r.jobs {
		c := r.costs[j.name]
		fmt.Fprintf(r.out, "| %s | %.2f | %s | %.0f | %.2f |\n", j.name, c.cpu.Seconds(), short(float64(j.bytes)/1e6/max(c.cpu.Seconds(), 1e-9)),
			r.perLine(j.name), c.wall.Seconds())
	}
	fmt.Fprintf(r.out, "\nMB/s is of CPU time, user and system, of the whole process, %d cores.\n\n| ratio | |\n|---|---|\n", runtime.NumCPU())
	for _, n := range []string{"10", "100", "1000", "published", "terms"} {
		r.ratio(fmt.Sprintf("CPU, crowsnest : Hyperscan, rules: %s", n), "crowsnest "+n, "hyperscan "+n)
	}
	r.ratio("CPU a line, crowsnest : mtail, 100 rules", "crowsnest 100", "mtail")
	r.ratio("CPU a line, crowsnest : SEC, 100 rules", "crowsnest 100", "sec")
	r.ratio("CPU a line, crowsnest : ripgrep, 100 rules", "crowsnest 100", "ripgrep")
	r.ratio("CPU, crowsnest with 100 rules : wc -l", "crowsnest 100", "wc")
	r.ratio("CPU, 1000 rules : 10 rules", "crowsnest 1000", "crowsnest 10")
	r.ratio("CPU, 5000 rules : 10 rules", "crowsnest 5000", "crowsnest 10")
	r.ratio("CPU a line, storm : ordinary, 100 rules, every hit printed", "crowsnest 100 on storm", "crowsnest 100")
	r.ratio("CPU a line, storm : ordinary, 100 rules, alerts only", "crowsnest 100 on storm, alerts", "crowsnest 100")
	for _, n := range []string{"100", "1000"} {
		one, many := r.costs["crowsnest "+n+", one core"], r.costs["crowsnest "+n]
		if one.wall > 0 && many.wall > 0 {
			fmt.Fprintf(r.out, "| wall, one core : all cores, %s rules | %.2f |\n", n, float64(one.wall)/float64(many.wall))
		}
	}
}

// perLine returns the CPU time per line, in ns.
func (r report) perLine(name string) float64 {
	for _, j := range r.jobs {
		if j.name == name && j.lines > 0 {
			return float64(r.costs[name].cpu/time.Nanosecond) / float64(j.lines)
		}
	}
	return 0
}

// ratio prints the ratio of the CPU time per line, if both were measured.
func (r report) ratio(what, one, other string) {
	a, b := r.perLine(one), r.perLine(other)
	if a > 0 && b > 0 {
		fmt.Fprintf(r.out, "| %s | %.3g |\n", what, a/b)
	}
}

// short formats a number with at least two digits.
func short(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
