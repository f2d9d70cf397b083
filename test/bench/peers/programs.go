package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the driver of Hyperscan
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// program is one of the compared programs.
type program struct {
	name string
	// args run it on a log, with its own path first.
	args func(rules ruleSet, log string) []string
	// counting is added to args to print counts; counts parses them, by the
	// name of the rule. nil: it prints none.
	counting []string
	counts   func(rules ruleSet, out []byte) (map[string]int64, error)
}

// anyRule is the name for counts of a program that cannot distinguish rules.
const anyRule = "any"

// find returns the programs that are installed, by name.
func find(ctx context.Context, o options, out io.Writer) map[string]program {
	found := map[string]program{"crowsnest": crowsnest(o.crowsnest)}
	makers := map[string]func(path string) program{"mtail": mtail, "sec": sec, "ripgrep": ripgrep, "wc": wc}
	binaries := map[string]string{"ripgrep": "rg"}
	for _, name := range o.peers {
		if name == "hyperscan" {
			path, err := buildHyperscan(ctx, o.cache)
			if err != nil {
				fmt.Fprintf(out, "skipped hyperscan: %v\n", err)
				continue
			}
			found[name] = hyperscan(path)
			continue
		}
		binary := name
		if b := binaries[name]; b != "" {
			binary = b
		}
		path, err := exec.LookPath(binary)
		if err != nil || makers[name] == nil {
			fmt.Fprintf(out, "skipped %s: not installed\n", name)
			continue
		}
		found[name] = makers[name](path)
	}
	return found
}

func crowsnest(path string) program {
	return program{
		name: "crowsnest",
		args: func(r ruleSet, log string) []string {
			return []string{path, "scan", "--hits", "-o", "jsonl", "--rules", filepath.Join(r.dir, "pack"), log}
		},
		counts: func(_ ruleSet, out []byte) (map[string]int64, error) {
			counts := map[string]int64{}
			for line := range bytes.Lines(out) {
				var hit struct{ Rule string }
				if err := json.Unmarshal(line, &hit); err != nil {
					return nil, err
				}
				counts[hit.Rule]++
			}
			return counts, nil
		},
	}
}

//go:embed hyperscan.c
var driver []byte

// buildHyperscan compiles the driver unless it exists.
func buildHyperscan(ctx context.Context, cache string) (string, error) {
	name := filepath.Join(cache, fmt.Sprintf("hyperscan-%.6x", sha256.Sum256(driver)))
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if err := os.WriteFile(name+".c", driver, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "gcc", "-O2", "-o", name+".part", name+".c", "-lhs")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w; install gcc, libc6-dev and libhyperscan-dev: %.200s", err, text)
	}
	return name, os.Rename(name+".part", name)
}

func hyperscan(path string) program {
	return program{
		name: "hyperscan",
		args: func(r ruleSet, log string) []string {
			return []string{path, filepath.Join(r.dir, "hyperscan.txt"), log}
		},
		counting: []string{"counts"},
		counts: func(r ruleSet, out []byte) (map[string]int64, error) {
			counts := map[string]int64{}
			for line := range bytes.Lines(out) {
				var id int
				var n int64
				if _, err := fmt.Sscan(string(line), &id, &n); err != nil || id < 1 || id > len(r.rules) {
					return nil, fmt.Errorf("%q is not a count", line)
				}
				counts[r.rules[id-1].Name] = n
			}
			return counts, nil
		},
	}
}

func mtail(path string) program {
	return program{
		name: "mtail",
		args: func(r ruleSet, log string) []string {
			return []string{path, "-one_shot", "-one_shot_format", "json", "-logtostderr", "-progs", filepath.Join(r.dir, "rules.mtail"), "-logs", log}
		},
		counts: func(_ ruleSet, out []byte) (map[string]int64, error) {
			var metrics map[string][]struct {
				LabelValues []struct {
					Labels []string
					Value  struct{ Value int64 }
				}
			}
			if err := json.Unmarshal(out, &metrics); err != nil {
				return nil, err
			}
			counts := map[string]int64{}
			for _, m := range metrics["matches"] {
				for _, v := range m.LabelValues {
					if len(v.Labels) == 1 {
						counts[v.Labels[0]] = v.Value.Value
					}
				}
			}
			return counts, nil
		},
	}
}

func sec(path string) program {
	return program{
		name: "sec",
		args: func(r ruleSet, log string) []string {
			return []string{path, "--conf=" + filepath.Join(r.dir, "sec.conf"), "--input=" + log, "--notail", "--fromstart"}
		},
		counts: func(_ ruleSet, out []byte) (map[string]int64, error) {
			counts := map[string]int64{}
			for line := range strings.Lines(string(out)) {
				counts[strings.TrimSpace(line)]++
			}
			return counts, nil
		},
	}
}

// ripgrep counts lines that any rule matches. Its Unicode support, which the
// others do not use, is turned off, and so is its second thread.
func ripgrep(path string) program {
	return program{
		name: "ripgrep",
		args: func(r ruleSet, log string) []string {
			return []string{path, "-c", "--no-mmap", "--no-unicode", "-j1", "-f", filepath.Join(r.dir, "ripgrep.txt"), log}
		},
		counts: func(_ ruleSet, out []byte) (map[string]int64, error) {
			n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
			return map[string]int64{anyRule: n}, err
		},
	}
}

// wc only reads lines, which is the lower bound.
func wc(path string) program {
	return program{name: "wc", args: func(_ ruleSet, log string) []string { return []string{path, "-l", log} }}
}

// count runs a program and reads its counts.
func (p program) count(ctx context.Context, rules ruleSet, log string) (map[string]int64, error) {
	args := slices.Concat(p.args(rules, log), p.counting)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, problems bytes.Buffer
	w := bufio.NewWriter(&out)
	cmd.Stdout, cmd.Stderr = w, &problems
	if err := errors.Join(cmd.Run(), w.Flush()); err != nil {
		return nil, fmt.Errorf("run %s: %w: %.300s", p.name, err, problems.String())
	}
	counts, err := p.counts(rules, out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("read what %s counted: %w", p.name, err)
	}
	return counts, nil
}
