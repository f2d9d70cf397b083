package loader

import (
	"fmt"
	"strings"

	"crowsnest/replay"
	"crowsnest/rules"
)

// failedTests runs the tests of a pack and describes those that fail. It returns "" if all
// pass.
func failedTests(p *rules.Pack) (string, error) {
	report, err := replay.RunTests(p.Rules, replay.TestOptions{})
	if err != nil {
		return "", fmt.Errorf("test pack %s: %w", p.Name, err)
	}
	if report.Failed() == 0 {
		return "", nil
	}
	var b strings.Builder
	_ = report.WriteText(&b, false) // writing to a Builder never fails
	return b.String(), nil
}
