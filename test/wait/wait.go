// Package wait polls for the effects of another process, which sends no notification.
// Tests of code in their own process use testing/synctest and channels.
package wait

import (
	"context"
	"errors"
	"time"
)

var errNotYet = errors.New("not yet")

// Until calls ok immediately and then every 50 ms, and reports whether it returned true
// within patience.
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

// NoError calls f immediately and then every 20 ms, until it returns no error. It returns
// the last error of f if patience or ctx ends before.
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
		case <-ctx.Done(): // call it one last time
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
