package victorialogs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/test/linesink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a source until stop is called.
func run(t testing.TB, s *Source, p *linesink.Sink) (stop func()) {
	t.Helper()
	s.Info().UseRules(p.Set)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, p) }()
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

var pack = linesink.Pack
