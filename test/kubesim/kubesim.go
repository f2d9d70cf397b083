// Package kubesim simulates what a container runtime and the kubelet do with
// log files: CRI lines in parts, rotation by rename and reopen with a moment
// when the path is absent, compression of the older file at the next rotation,
// restarts, and removal of the pod. It is for tests.
package kubesim

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Options describe one container. Zero values have defaults.
type Options struct {
	Root      string // folder of all pods; required
	Namespace string
	Pod       string
	UID       string
	Container string
	MaxFiles  int              // as containerLogMaxFiles: 5
	Clock     func() time.Time // of the lines: time.Now
	Hole      func()           // runs while the path is absent
	Late      func()           // runs when the new file exists and the old one is still being written
}

// Container writes the log of one container. It is not safe for concurrent use.
// Err keeps the first error.
type Container struct {
	Err error

	opt      Options
	f        *os.File
	instance int
	rotation int
	last     time.Time
}

// New creates the directory and opens 0.log.
func New(opt Options) *Container {
	or := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	or(&opt.Namespace, "ns")
	or(&opt.Pod, "pod")
	or(&opt.UID, "6b1c9b5e-0000-4000-8000-000000000000")
	or(&opt.Container, "c")
	if opt.MaxFiles == 0 {
		opt.MaxFiles = 5
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	c := &Container{opt: opt}
	c.check(os.MkdirAll(c.Dir(), 0o755))
	c.open()
	return c
}

// PodDir returns the directory of the pod.
func (c *Container) PodDir() string {
	return filepath.Join(c.opt.Root, c.opt.Namespace+"_"+c.opt.Pod+"_"+c.opt.UID)
}

// Dir returns the directory of the container.
func (c *Container) Dir() string { return filepath.Join(c.PodDir(), c.opt.Container) }

// Path returns the path of the current file.
func (c *Container) Path() string {
	return filepath.Join(c.Dir(), fmt.Sprintf("%d.log", c.instance))
}

func (c *Container) check(err error) {
	if c.Err == nil {
		c.Err = err
	}
}

func (c *Container) open() {
	f, err := os.OpenFile(c.Path(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	c.check(err)
	c.f = f
}

// Stamp returns the time of the next line. Successive times differ, and ascend
// unless the clock is set back.
func (c *Container) Stamp() string {
	now := c.opt.Clock()
	if !now.After(c.last) && c.last.Sub(now) < time.Second {
		now = c.last.Add(time.Nanosecond)
	}
	c.last = now
	return now.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
}

// Write writes one whole line of "stdout" or "stderr".
func (c *Container) Write(stream, text string) {
	c.Raw(c.Stamp() + " " + stream + " F " + text + "\n")
}

// Part writes a partial line.
func (c *Container) Part(stream, text string) {
	c.Raw(c.Stamp() + " " + stream + " P " + text + "\n")
}

// Raw writes bytes unchanged.
func (c *Container) Raw(s string) {
	_, err := io.WriteString(c.f, s)
	c.check(err)
}

// Rotate rotates like the kubelet when the file is too large: it removes the
// oldest files, compresses the one rotated before, renames, and reopens.
func (c *Container) Rotate() {
	rotated := c.rotated()
	for len(rotated) > c.opt.MaxFiles-2 {
		c.check(os.Remove(rotated[0]))
		rotated = rotated[1:]
	}
	for _, name := range rotated {
		if !strings.HasSuffix(name, ".gz") {
			c.compress(name)
		}
	}
	c.RenameAway()
	if c.opt.Hole != nil {
		c.opt.Hole()
	}
	c.Reopen()
}

// RenameAway is the first half of a rotation: the path is absent and the
// runtime writes to the renamed file.
func (c *Container) RenameAway() { c.check(os.Rename(c.Path(), c.nextName())) }

// RenameBack reverts RenameAway, as the kubelet does if the runtime cannot
// reopen.
func (c *Container) RenameBack() {
	r := c.rotated()
	c.check(os.Rename(r[len(r)-1], c.Path()))
}

// Reopen is the second half: the runtime creates the new file, then closes the
// old one.
func (c *Container) Reopen() {
	old := c.f
	f, err := os.OpenFile(c.Path(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	c.check(err)
	if c.opt.Late != nil {
		c.opt.Late()
	}
	c.f = f
	c.check(old.Close())
}

// nextName uses a different time for each rotation; the kubelet's names have
// seconds.
func (c *Container) nextName() string {
	c.rotation++
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.rotation) * time.Second)
	return c.Path() + "." + at.Format("20060102-150405")
}

// rotated returns the rotated files of this instance, oldest first.
func (c *Container) rotated() []string {
	names, err := filepath.Glob(c.Path() + ".*")
	c.check(err)
	kept := names[:0]
	for _, n := range names {
		if !strings.HasSuffix(n, ".tmp") {
			kept = append(kept, n)
		}
	}
	sort.Strings(kept)
	return kept
}

// compress writes name.gz through a .tmp and removes the original.
func (c *Container) compress(name string) {
	b, err := os.ReadFile(name)
	c.check(err)
	tmp, err := os.Create(name + ".tmp")
	c.check(err)
	z := gzip.NewWriter(tmp)
	_, err = z.Write(b)
	c.check(err)
	c.check(z.Close())
	c.check(tmp.Close())
	c.check(os.Rename(name+".tmp", name+".gz"))
	c.check(os.Remove(name))
}

// Restart ends this instance and starts the next. Of the ended ones, only the
// newest is kept.
func (c *Container) Restart() {
	c.check(c.f.Close())
	if c.instance > 0 {
		dead, err := filepath.Glob(filepath.Join(c.Dir(), fmt.Sprintf("%d.log*", c.instance-1)))
		c.check(err)
		for _, name := range dead {
			c.check(os.Remove(name))
		}
	}
	c.instance++
	c.open()
}

// Remove removes the pod's directory. The runtime may still write.
func (c *Container) Remove() { c.check(os.RemoveAll(c.PodDir())) }

// Close closes the file.
func (c *Container) Close() { c.check(c.f.Close()) }
