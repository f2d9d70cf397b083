package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"crowsnest/test/traffic"
)

// slowPeers try each rule on each line. They get a small log, and their figures
// are per line.
var slowPeers = []string{"mtail", "sec", "ripgrep"}

// peerRules is the number of rules for their comparison.
const peerRules = 100

// plan collects jobs.
type plan struct {
	o        options
	programs map[string]program
	jobs     []job
	logs     map[string][2]int64 // lines and bytes, by file
	err      error
}

// add plans a run of a program on a log with n rules. It ignores a missing
// program.
func (p *plan) add(name, programName string, kind traffic.Kind, n int, size int64) *job {
	program, ok := p.programs[programName]
	if !ok || p.err != nil {
		return nil
	}
	rules, err := p.o.ruleSet(n)
	if err != nil {
		p.err = err
		return nil
	}
	log, err := p.o.log(kind, size)
	if err != nil {
		p.err = err
		return nil
	}
	of, ok := p.logs[log]
	if !ok {
		if of, p.err = measureLog(log); p.err != nil {
			return nil
		}
		p.logs[log] = of
	}
	p.jobs = append(p.jobs, job{name: name, args: program.args(rules, log), lines: of[0], bytes: of[1]})
	return &p.jobs[len(p.jobs)-1]
}

// measureLog counts lines and bytes; it also loads the file into the page
// cache.
func measureLog(name string) (of [2]int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return of, fmt.Errorf("read the log: %w", err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		of[0] += int64(bytes.Count(buf[:n], []byte("\n")))
		of[1] += int64(n)
		if err == io.EOF {
			return of, nil
		}
		if err != nil {
			return of, fmt.Errorf("read the log: %w", err)
		}
	}
}

// compare measures everything and prints the tables.
func compare(ctx context.Context, o options, programs map[string]program, out io.Writer) error {
	p := &plan{o: o, programs: programs, logs: map[string][2]int64{}}
	for _, n := range o.sets {
		p.add(fmt.Sprint("crowsnest ", n), "crowsnest", traffic.CRI, n, o.size)
		if n <= 1000 {
			p.add(fmt.Sprint("hyperscan ", n), "hyperscan", traffic.CRI, n, o.size)
		}
	}
	p.add("crowsnest published", "crowsnest", traffic.Published, published, o.size)
	p.add("hyperscan published", "hyperscan", traffic.Published, published, o.size)
	if o.terms != nil {
		p.add("crowsnest terms", "crowsnest", traffic.CRI, terms, o.size)
		p.add("hyperscan terms", "hyperscan", traffic.CRI, terms, o.size)
	}
	if !o.onlySets {
		p.addOthers()
	}
	if p.err != nil {
		return p.err
	}
	costs, err := interleave(ctx, p.jobs, o.rounds, out)
	if err != nil {
		return err
	}
	report{p.jobs, costs, out}.print()
	return nil
}

// addOthers plans the runs on other logs, with other programs and on one core.
func (p *plan) addOthers() {
	o := p.o
	for _, kind := range []traffic.Kind{traffic.Mix, traffic.JSON, traffic.Storm} {
		p.add(fmt.Sprintf("crowsnest 100 on %s", kind), "crowsnest", kind, peerRules, o.size/4)
	}
	if j := p.add("crowsnest 100 on storm, alerts", "crowsnest", traffic.Storm, peerRules, o.size/4); j != nil {
		// The alerts of the storm instead of all its lines.
		j.args = append([]string{j.args[0], "scan"}, j.args[3:]...)
	}
	p.add("ripgrep", "ripgrep", traffic.CRI, peerRules, o.size)
	p.add("wc", "wc", traffic.CRI, peerRules, o.size)
	p.add("mtail", "mtail", traffic.CRI, peerRules, o.small)
	p.add("sec", "sec", traffic.CRI, peerRules, o.small)
	for _, n := range []int{100, 1000} {
		if j := p.add(fmt.Sprintf("crowsnest %d, one core", n), "crowsnest", traffic.CRI, n, o.size); j != nil {
			j.env = []string{"GOMAXPROCS=1"}
		}
	}
}
