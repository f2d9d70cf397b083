package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"crowsnest/daemon/loader"
	"crowsnest/importer"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/strictyaml"
)

// tryRules checks and tests a pack as it was written, and says which rules fail.
func tryRules(pack []byte) (importer.Trial, error) {
	const name = "imported.yaml"
	trial := importer.Trial{Failed: map[string]string{}, Warned: map[string][]string{}}
	docs, problems := loader.ParseFiles([]rules.File{{Name: name, Data: pack}})
	set, found := loader.Build(docs, rules.Options{})
	problems = append(problems, found...)
	if set != nil {
		untested, err := replay.Untested(set.Rules)
		if err != nil {
			return trial, err
		}
		problems = slices.Concat(problems, untested, replay.UnknownLabels(set.Rules, rules.StreamLabels))
	}
	alerts := alertLines(pack)
	for _, p := range problems {
		alert := cmp.Or(p.Rule, alerts[p.Line])
		switch {
		case p.Level == strictyaml.Error && alert == "":
			return trial, problems
		case p.Level == strictyaml.Error:
			trial.Failed[alert] = "crowsnest refuses the rule: " + problemOf(p)
		case alert != "":
			trial.Warned[alert] = append(trial.Warned[alert], problemOf(p))
		}
	}
	if set == nil || len(trial.Failed) > 0 {
		return trial, nil
	}
	report, err := replay.RunTests(set.Rules, replay.TestOptions{})
	if err != nil {
		return trial, err
	}
	for _, t := range report.Results {
		if len(t.Failures) > 0 && trial.Failed[t.Rule] == "" {
			trial.Failed[t.Rule] = fmt.Sprintf("its test %q fails: %s", t.Test, strings.ReplaceAll(t.Failures[0], "\n", " "))
		}
	}
	return trial, nil
}

func problemOf(p strictyaml.Problem) string {
	if p.Fix == "" {
		return p.Message
	}
	return p.Message + "; " + p.Fix
}

// alertLines returns the alert whose rule each line of a generated pack belongs to, by its number.
func alertLines(pack []byte) map[int]string {
	out := map[int]string{}
	n, alert := 0, ""
	for line := range strings.Lines(string(pack)) {
		n++
		if name, ok := strings.CutPrefix(line, "- alert: "); ok {
			alert = strings.TrimSpace(name)
		}
		out[n] = alert
	}
	return out
}
