// Command load measures what the daemon takes: the real binary follows the logs
// of pods with the kubelet source and tells a fake Alertmanager, as on a node.
//
//	go run ./test/load -rules DIR -log FILE              one file, as fast as it can be read
//	go run ./test/load -rules DIR -log FILE -files 200 -mb 10 -for 30s
//	                                                     lines of FILE at a rate, over many files
//	go run ./test/load ... -reload DIR2                  meanwhile the rules change again and again
//
// It prints CPU of the whole process (user and system), the greatest resident
// set, lines, and at a rate how long it takes from a line to its alert.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// options of one measurement.
type options struct {
	binary string
	rules  string        // folder or file
	reload string        // another one that takes turns with rules; "": none
	log    string        // CRI lines
	files  int           // 0: log itself is one file
	lines  int           // per second, over all files
	mb     float64       // per second; wins over lines
	warm   time.Duration // before the measurement begins
	span   time.Duration // of the measurement
	every  time.Duration // between reloads
	dir    string        // of everything that is written
	pprof  string        // where to write a profile of the CPU; "": none
	env    []string
}

func main() {
	o := options{}
	runs := 0
	flag.StringVar(&o.binary, "binary", "", "the daemon; built if empty")
	flag.StringVar(&o.rules, "rules", "", "rule pack or folder of packs; generated if empty")
	flag.StringVar(&o.reload, "reload", "", "pack that takes turns with -rules while lines are written")
	flag.StringVar(&o.log, "log", "", "file of CRI lines; generated if empty")
	flag.IntVar(&o.files, "files", 0, "files that are written at a rate; 0: the log is read as it is")
	flag.IntVar(&o.lines, "lines", 10000, "lines a second over all files")
	flag.Float64Var(&o.mb, "mb", 0, "MB a second over all files, in the place of -lines")
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "time before the measurement")
	flag.DurationVar(&o.span, "for", 30*time.Second, "time of the measurement")
	flag.DurationVar(&o.every, "every", 5*time.Second, "time between reloads")
	flag.StringVar(&o.dir, "dir", "", "folder for logs and state, on a disk; a temporary one if empty")
	flag.StringVar(&o.pprof, "pprof", "", "write a CPU profile of the daemon here")
	flag.IntVar(&runs, "runs", 3, "runs over the log as it is")
	flag.Parse()
	if err := measure(o, runs); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure makes what is missing, measures and prints.
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

// complete makes what was not named.
func (o *options) complete() error {
	if o.binary == "" {
		o.binary = filepath.Join(o.dir, "crowsnest")
		cmd := exec.Command("go", "build", "-o", o.binary, "crowsnest/cmd/crowsnest")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the daemon: %w: %s", err, out)
		}
	}
	if o.rules == "" {
		o.rules = filepath.Join(o.dir, "load.yaml")
		if err := os.WriteFile(o.rules, []byte(samplePack(100)), 0o600); err != nil {
			return err
		}
	}
	if o.log == "" {
		o.log = filepath.Join(o.dir, "load.log")
		if err := os.WriteFile(o.log, sampleLog(20<<20), 0o600); err != nil {
			return err
		}
	}
	return nil
}
