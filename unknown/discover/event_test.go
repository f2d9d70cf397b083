package discover

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Events as kubectl prints them, and lines that only resemble them.
func TestListed(t *testing.T) {
	f := func(line string, level Level, message string) {
		t.Helper()
		got, ok := kubectlEvent(line)
		require.Equal(t, message != "", ok)
		if ok {
			require.Equal(t, parsedLine{Level: level, Message: message}, got)
		}
	}
	f("", 0, "")
	f("Warning", 0, "")
	f("Warning: this is deprecated", 0, "")
	f("Normal  operation  goes on", levelInfo, "")
	f("  Warning  Failed  3m  kubelet  no image", levelWarning, "Failed: no image")
	f("  Normal   Pulled  3m (x2 over 4m)  kubelet  pulled", levelInfo, "Pulled: pulled")
	f("3m    Warning   Failed   pod/web   no  image", levelWarning, "Failed: no  image")
	f("shop   3m (x7 over 1d)   Warning   Failed   pod/web   no image", levelWarning, "Failed: no image")
	f("<unknown>\tWarning\tFailed\tpod/web\tno image", levelWarning, "Failed: no image")
	f("a  b  c  Warning  Failed  pod/web  no image", 0, "")
	f("Warning  Failed  3m (xx over 1d)  kubelet  no image", 0, "")
	f("Warning  Failed  99999999999999999999m  kubelet  no image", levelWarning, "Failed: kubelet  no image")
}
