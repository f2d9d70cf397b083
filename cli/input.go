package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"crowsnest/cli/internal/inputs"
	"crowsnest/matcher"
	"crowsnest/sources/kubelet"
)

// maxSkipped bounds the lines about skipped files.
const maxSkipped = 20

// inputs returns where commands find recorded logs, and a function that removes the
// temporary folder, which exists until then. A signal removes it too.
func (c *cli) inputs(labels matcher.Labels) (opt inputs.Options, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "crowsnest-")
	if err != nil {
		return opt, nil, fmt.Errorf("create a temporary folder for archives: %w; set TMPDIR to a folder that can be written", err)
	}
	opt = inputs.Options{Labels: labels, PathLabels: kubelet.PathLabels, Stdin: c.in, Unpack: dir}
	release := onSignal(func() { removeAll(dir) })
	return opt, func() error {
		release()
		return os.RemoveAll(dir)
	}, nil
}

// onSignal calls clean before a signal ends the process, until release is called.
func onSignal(clean func()) (release func()) {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			clean()
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal)) // the parent sees how it ended
			<-done
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

// removeAll removes a folder in which files are still made.
func removeAll(dir string) {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

// reportSkipped names the files without lines of logs.
func (c *cli) reportSkipped(account *inputs.Account) {
	all := account.Skipped()
	for _, s := range all[:min(len(all), maxSkipped)] {
		if len(s.Names) == 1 {
			fmt.Fprintf(c.err, "skipped %s: %s\n", s.Names[0], s.Problem)
		} else {
			fmt.Fprintf(c.err, "skipped %s and %d more files: %s\n", s.Names[0], len(s.Names)-1, s.Problem)
		}
	}
	more := 0
	for _, s := range all[min(len(all), maxSkipped):] {
		more += len(s.Names)
	}
	if more > 0 {
		fmt.Fprintf(c.err, "skipped %d more files; scan -o json lists all\n", more)
	}
}
