// Package wait waits for what another process does: nothing tells when that is
// done, so it is asked for again and again. Code that runs in the process of its
// test is waited for by package testing/synctest and channels.
package wait

import (
	"context"
	"errors"
	"time"
)

var errNotYet = errors.New("not yet")

// Until asks every 50 ms, at once for the first time, and tells whether ok became
// true within patience.
func Until(patience time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, 50*time.Millisecond, func() error {
		if !ok() {
			return errNotYet
		}
		return nil
	}) == nil
}

// NoError asks every 20 ms, at once for the first time, until f has no error any
// more. It returns f's newest error if patience or ctx ends before.
func NoError(ctx context.Context, patience time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, 20*time.Millisecond, f)
}

func poll(ctx context.Context, every time.Duration, f func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done(): // it is asked a last time
		case <-tick.C:
		}
	}
}

// Pause returns after d, or when ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
