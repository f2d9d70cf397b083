package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"crowsnest/test/wait"
)

// backlogResult is the cost of reading one file.
type backlogResult struct {
	lines, bytes int64
	start        time.Duration // CPU until the daemon was ready, without the file
	cpu          time.Duration // of the whole process
	wc           time.Duration // CPU of wc -l on the same file
	wall         time.Duration // of the reading
	hwm          float64       // MiB
}

func (r backlogResult) String() string {
	return fmt.Sprintf("lines=%d MB=%.0f cpu=%.2fs (start %.2fs) wall=%.2fs ns/line=%.0f VmHWM=%.1fMiB wc=%.3fs cpu/wc=%.1f (without start %.1f)",
		r.lines, float64(r.bytes)/1e6, r.cpu.Seconds(), r.start.Seconds(), r.wall.Seconds(), float64(r.cpu.Nanoseconds())/float64(r.lines),
		r.hwm, r.wc.Seconds(), r.cpu.Seconds()/r.wc.Seconds(), (r.cpu-r.start).Seconds()/r.wc.Seconds())
}

// backlog makes the daemon read one log as that of a pod.
func backlog(ctx context.Context, o options) (r backlogResult, err error) {
	if r.lines, r.bytes, err = countLines(o.log); err != nil {
		return r, err
	}
	if r.wc, err = wordCount(o.log); err != nil {
		return r, err
	}
	d, err := newRun(o)
	if err != nil {
		return r, err
	}
	staged := filepath.Join(d.Dir, "0.log")
	if err := place(o.log, staged); err != nil {
		return r, err
	}
	pod := filepath.Join(d.pods, "load_one_6b1c9b5e-0000-4000-8000-000000000000", "manager")
	if err := errors.Join(os.MkdirAll(pod, 0o755), d.start(ctx)); err != nil {
		_, stopErr := d.stop()
		return r, errors.Join(err, stopErr)
	}
	if r.start, err = d.Process().CPU(); err != nil {
		return r, err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- d.profile(ctx, o, 2*time.Second) }()
	before, began := d.Process().BytesRead(), time.Now()
	if err := os.Rename(staged, filepath.Join(pod, "0.log")); err != nil {
		return r, err
	}
	err = wait.NoError(ctx, 5*time.Minute, func() error { // requests for metrics cost the daemon CPU
		if d.Process().BytesRead() < before+r.bytes {
			return errors.New("the log was not read to its end")
		}
		return nil
	})
	r.wall = time.Since(began)
	if err == nil {
		err = wait.NoError(ctx, 10*time.Second, func() error {
			if n, err := d.lines(ctx); err != nil || n != float64(r.lines) {
				return errors.Join(err, fmt.Errorf("%v of %d lines were read", n, r.lines))
			}
			return nil
		})
	}
	r.hwm = d.mib("VmHWM")
	err = errors.Join(err, <-profiled)
	used, stopErr := d.stop()
	if err := errors.Join(err, stopErr); err != nil {
		return r, err
	}
	r.cpu = used
	return r, nil
}

// wordCount returns the CPU time of wc -l.
func wordCount(path string) (time.Duration, error) {
	best := time.Duration(0)
	for range 3 {
		cmd := exec.Command("wc", "-l", path)
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("wc: %w", err)
		}
		took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if best == 0 || took < best {
			best = took
		}
	}
	return max(best, time.Millisecond), nil
}

func countLines(path string) (lines, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte("\n")))
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// place creates a copy of the file. The daemon would refuse a hard link.
func place(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
