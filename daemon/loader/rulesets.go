package loader

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/common/version"

	"crowsnest/internal/lazyre"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/rules/rulefiles"
)

// shippedPrefix is the prefix in the names of shipped files, which are embedded in the program.
const shippedPrefix = "shipped:"

// ParseFiles returns a document for each file, also for invalid ones, and the problems of all.
func ParseFiles(files []rules.File) ([]*rules.Document, rules.Problems) {
	var docs []*rules.Document
	var problems rules.Problems
	for _, f := range files {
		d, found := rules.Parse(f)
		docs, problems = append(docs, d), append(problems, found...)
	}
	return docs, problems
}

// release matches a release version, which can be compared with the minimum version of a pack. A build from a branch
// meets every minimum.
var release = lazyre.New(`^v?[0-9]+\.[0-9]+\.[0-9]+`)

// BuildSet joins documents into a set of rules for this version of the program. Without documents it returns no set and
// no problems, because the reason has already been reported.
func BuildSet(docs []*rules.Document, opt rules.Options) (*rules.Set, rules.Problems) {
	if release.MatchString(version.Version) {
		opt.Version = version.Version
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return rules.Build(docs, opt)
}

// Shipped returns the packs that are embedded in the program, with their tests.
func Shipped() ([]rules.File, error) {
	files, err := rulefiles.ReadFS(rules.Shipped())
	if err != nil {
		return nil, fmt.Errorf("read the shipped rules: %w", err)
	}
	for i := range files {
		files[i].Name, files[i].Released = shippedPrefix+files[i].Name, true
	}
	return files, nil
}

// ShippedWithoutTests returns the packs that are embedded in the program, without their tests. They load in a few
// milliseconds.
func ShippedWithoutTests() []rules.File { return rules.ShippedWithoutTests(shippedPrefix) }

// TryPack checks and tests a pack that the program generated. As for shipped packs, warnings count as errors.
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

// failedTests runs the tests of the rules and describes the failed ones. It returns "" if all tests pass.
func failedTests(all []*rules.Rule) (string, error) {
	report, err := replay.RunTests(all, replay.TestOptions{})
	if err != nil || report.Failed() == 0 {
		return "", err
	}
	var b strings.Builder
	_ = report.WriteText(&b, false) // writing to a Builder never fails
	return b.String(), nil
}

// addRuleCount adds the number of rules to the header of a pack, because shipped packs must state it.
func addRuleCount(pack []byte) []byte {
	n := bytes.Count(pack, []byte("\n- alert: "))
	return bytes.Replace(pack, []byte("version: 0.1.0}"), fmt.Appendf(nil, "version: 0.1.0, rules: %d}", n), 1)
}
