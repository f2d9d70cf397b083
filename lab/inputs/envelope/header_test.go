package envelope

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that another program wrapped counts as understood only if the wrapper is a log
// line of its own.
func TestUnderstoodLines(t *testing.T) {
	for line, want := range map[string]bool{
		`time="2025-10-18 10:38:30" level=info msg="W1018 10:38:30.152270   51665 logging.go:55] [core] grpc: failed" component=kube-apiserver`: true,
		`somebody wrote this: W1018 10:38:30.152270   51665 logging.go:55] [core] grpc: failed`:                                                 false,
		`eyJhbGciOiJub25lIn0eyJhbGciOiJub25lIn0eyJhbGciOiJub25lIn0`:                                                                             false,
		`kern:    info: [2025-11-20T10:00:00.5Z]: x`:                                                                                            true,
		`10.20.0.4: user: warning: [2025-11-20T10:00:00Z]: x`:                                                                                   true,
		`fd00::4: daemon:  notice: [2025-11-20T10:00:00Z]: x`:                                                                                   true,
		`user: warning: [2025-11-20]: x`:                                                                                                        false,
		`warning [2025-11-20T10:00:00Z]: x`:                                                                                                     false,
		`see: user: warning: it says [2025-11-20T10:00:00Z]: x`:                                                                                 false,
	} {
		require.Equal(t, want, !isOpaque([]byte(line)) && isOrdinary([]byte(line), false), line)
	}
}
