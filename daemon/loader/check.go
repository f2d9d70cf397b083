package loader

import (
	"errors"
	"fmt"
	"strings"

	"crowsnest/replay"
	"crowsnest/rules"
)

// Check loads files as a set of their own and runs their tests. The error lists every
// problem of the files, or every test that fails.
func Check(files []rules.File) (*rules.Set, error) {
	docs, problems := ParseFiles(files)
	set, found := Build(docs, rules.Options{})
	if errs := append(problems, found...).Errors(); len(errs) > 0 {
		errs.Sort()
		return nil, errs
	}
	for _, p := range set.Packs {
		failed, err := failedTests(p)
		if err != nil {
			return nil, err
		}
		if failed != "" {
			return nil, errors.New(strings.TrimSpace(failed))
		}
	}
	return set, nil
}

// failedTests runs the tests of a pack and describes those that fail; empty if there is none.
func failedTests(p *rules.Pack) (string, error) {
	report, err := replay.RunTests(p.Rules, replay.TestOptions{})
	if err != nil {
		return "", fmt.Errorf("test pack %s: %w", p.Name, err)
	}
	if report.Failed() == 0 {
		return "", nil
	}
	var b strings.Builder
	_ = report.WriteText(&b, false) // a Builder never fails
	return b.String(), nil
}
