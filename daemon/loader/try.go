package loader

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"crowsnest/replay"
	"crowsnest/rules"
)

// Try checks and tests a pack that the program wrote as if it were shipped, warnings
// included.
func Try(name string, data []byte) error {
	docs, problems := ParseFiles([]rules.File{{Name: name, Data: counted(data)}})
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

// counted returns a pack with its number of rules, which only shipped packs state.
func counted(pack []byte) []byte {
	n := bytes.Count(pack, []byte("\n- alert: "))
	return bytes.Replace(pack, []byte("version: 0.1.0}"), fmt.Appendf(nil, "version: 0.1.0, rules: %d}", n), 1)
}
