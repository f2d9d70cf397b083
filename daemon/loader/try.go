package loader

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"crowsnest/replay"
	"crowsnest/rules"
)

// TryPack checks and tests a pack that the program wrote. As for shipped packs, warnings count as errors.
func TryPack(name string, data []byte) error {
	docs, problems := ParseFiles([]rules.File{{Name: name, Data: addRuleCount(data)}})
	set, found := BuildSet(docs, rules.Options{Shipped: true})
	if problems = append(problems, found...); len(problems) > 0 {
		return problems
	}
	failed, err := failedTests(set.Rules)
	if err == nil && failed != "" {
		err = errors.New(failed)
	}
	return err
}

// failedTests runs the tests of rules and describes those that fail. It returns "" if all pass.
func failedTests(all []*rules.Rule) (string, error) {
	report, err := replay.RunTests(all, replay.TestOptions{})
	if err != nil || report.Failed() == 0 {
		return "", err
	}
	var b strings.Builder
	_ = report.WriteText(&b, false) // writing to a Builder never fails
	return b.String(), nil
}

// addRuleCount adds the number of rules to the header of a pack, as shipped packs require it.
func addRuleCount(pack []byte) []byte {
	n := bytes.Count(pack, []byte("\n- alert: "))
	return bytes.Replace(pack, []byte("version: 0.1.0}"), fmt.Appendf(nil, "version: 0.1.0, rules: %d}", n), 1)
}
