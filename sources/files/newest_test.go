package files

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// A log that a person named is read from the start of its newest file, and followed over
// its rotation; one that is made later is read from its first file.
func TestNewest(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		f, err := os.OpenFile(filepath.Join(root, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	stamp := func(hour string) string { return "2026-01-01T" + hour + ":00:00.000000000Z stderr F " }
	write("plain.log.1", "old\n")
	write("plain.log", "1\n")
	write("timed.log.1", stamp("01")+"old\n")
	write("timed.log", stamp("02")+"1\n")
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{NoWatch: true, FromStart: true, Newest: true, LookBack: -1, Paths: []Path{{Path: filepath.Join(root, "*.log")}}})
		p := &pipe{blocks: map[string]string{}, labels: map[string]matcher.Labels{}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, p) }()
		<-time.After(2 * time.Second)
		write("plain.log", "2\n")
		<-time.After(time.Second)
		for _, name := range []string{"plain.log", "timed.log"} {
			require.NoError(t, os.Rename(filepath.Join(root, name+".1"), filepath.Join(root, name+".2")))
			require.NoError(t, os.Rename(filepath.Join(root, name), filepath.Join(root, name+".1")))
		}
		write("plain.log", "3\n")
		write("timed.log", stamp("03")+"2\n")
		write("late.log.1", stamp("04")+"1\n")
		write("late.log", stamp("05")+"2\n")
		<-time.After(7 * time.Second)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, "1\n2\n3\n", p.blocks["plain.log"])
		require.Equal(t, stamp("02")+"1\n"+stamp("03")+"2\n", p.blocks["timed.log"])
		require.Equal(t, stamp("04")+"1\n"+stamp("05")+"2\n", p.blocks["late.log"])
	})
}
