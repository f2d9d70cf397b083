package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// file reads a file of the process in /proc; "" if it is missing.
func (p *Process) file(name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), name))
	if err != nil {
		return ""
	}
	return string(b)
}

// field returns the number after a name at the start of a line, such as "VmHWM:"; 0 if
// there is none.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			value := strings.TrimSuffix(strings.TrimSpace(rest), " kB")
			n, _ := strconv.ParseInt(value, 10, 64) //nolint:errcheck // 0 then
			return n
		}
	}
	return 0
}

// Memory returns a size from /proc/PID/status in KiB, such as VmHWM, the peak resident
// set; 0 if unknown.
func (p *Process) Memory(name string) int64 { return field(p.file("status"), name+":") }

// BytesRead returns how many bytes the running process has read so far, with any system
// call; 0 if unknown.
func (p *Process) BytesRead() int64 { return field(p.file("io"), "rchar:") }

// CPU returns the CPU time of the threads of the running process so far, user and system.
// /proc/PID/stat counts in steps of 10 ms, which is too coarse for a process that sleeps.
func (p *Process) CPU() (time.Duration, error) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID())) // the pattern is valid
	if len(threads) == 0 {
		return 0, fmt.Errorf("process %d does not run, or there is no /proc", p.PID())
	}
	var sum time.Duration
	for _, name := range threads {
		text, _ := os.ReadFile(name) // the thread may have ended
		used, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(used, 10, 64)
		if err != nil {
			continue
		}
		sum += time.Duration(n)
	}
	return sum, nil
}

// Descriptors counts the open files of the running process, and the deleted ones among
// them.
func (p *Process) Descriptors() (all, deleted int) {
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasSuffix(to, " (deleted)") {
			deleted++
		}
	}
	return len(entries), deleted
}
