package loader

import (
	"errors"
	"strings"

	"crowsnest/replay"
	"crowsnest/rules"
)

// Try checks and tests a pack that the program wrote, warnings included.
func Try(name string, data []byte) error {
	docs, problems := ParseFiles([]rules.File{{Name: name, Data: data}})
	set, found := Build(docs, rules.Options{Shipped: true})
	if problems = append(problems, found...); len(problems) > 0 {
		return problems
	}
	report, err := replay.RunTests(set.Rules, replay.TestOptions{})
	if err != nil {
		return err
	}
	if report.Failed() > 0 {
		var b strings.Builder
		return errors.Join(report.WriteText(&b, false), errors.New(b.String()))
	}
	return nil
}
