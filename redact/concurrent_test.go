package redact

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConcurrentUse: scanners are reused, so goroutines must not share one.
func TestConcurrentUse(t *testing.T) {
	r := New(nil)
	texts := append(ordinary(), `password="hunter2" token=abc`, "https://u:p@h/x?password%3Dhunter2", "mysql -pabcdef -u root")
	want := make([]string, len(texts))
	for i, s := range texts {
		want[i] = r.String(s)
	}
	var wg sync.WaitGroup
	got := make([][]string, 4)
	for k := range got {
		wg.Go(func() {
			for range 50 {
				got[k] = nil
				for _, s := range texts {
					got[k] = append(got[k], r.String(s))
				}
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		require.Equal(t, want, g)
	}
}
