package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"crowsnest/test/kubesim"
)

// measureChurn measures pods that come and go on a node.
func measureChurn(ctx context.Context, o options) error {
	fmt.Println("| pods that came and went, each second | CPU of the agent | per pod |\n|---:|---:|---:|")
	dir, err := os.MkdirTemp("", "scale-pods-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	l, err := newLab(ctx, o, func(pack, alertmanager string) string {
		return fmt.Sprintf("rules: {shipped: false, paths: [%q]}\nsinks: {alertmanager: {urls: [%q]}}\nsources: {kubelet: {dir: %q}}\n", pack, alertmanager, dir)
	})
	defer l.close()
	if err != nil {
		return err
	}
	for _, rate := range []int{0, 10, 50} {
		n := 0
		cpu, took, err := l.spent(func() error {
			n = churn(ctx, dir, rate, o.span)
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %s | %s |\n", rate, share(cpu, took), each(cpu, int64(n)))
	}
	return nil
}

// churn starts pods with a log of ten lines, and removes each after two seconds.
func churn(ctx context.Context, dir string, rate int, span time.Duration) (n int) {
	type pod struct {
		c     *kubesim.Container
		until time.Time
	}
	var all []pod
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < span && ctx.Err() == nil; <-tick.C {
		for n < int(time.Since(began).Seconds()*float64(rate)) {
			n++
			c := kubesim.New(kubesim.Options{Root: dir, Namespace: "ns", Pod: fmt.Sprintf("job-%d-%d", rate, n), Container: "c"})
			for range 10 {
				c.Write("stderr", "I0101 00:00:00.000000       1 main.go:1] an ordinary line of a controller")
			}
			c.Close()
			all = append(all, pod{c, time.Now().Add(2 * time.Second)})
		}
		for len(all) > 0 && time.Now().After(all[0].until) {
			_ = os.RemoveAll(all[0].c.PodDir())
			all = all[1:]
		}
	}
	return n
}
