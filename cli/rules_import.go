package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"crowsnest/cli/internal/show"
	"crowsnest/daemon/loader"
	"crowsnest/internal/lazyre"
	"crowsnest/internal/strictyaml"
	"crowsnest/lab/importer"
	"crowsnest/lab/inputs"
	"crowsnest/replay"
	"crowsnest/rules"
)

type importFlags struct {
	from        string
	pack        string
	rulesOut    string
	strict      bool
	skipRefused bool
	output      *oneOf
}

func newRulesImport(c *cli) *cobra.Command {
	f := importFlags{output: newOneOf("text", "json")}
	cmd := &cobra.Command{
		Use:   "import cre FILE|FOLDER...",
		Short: "Translate CREs, the rules of preq, into packs",
		Args:  cobra.MinimumNArgs(2),
		RunE:  func(_ *cobra.Command, args []string) error { return c.rulesImport(f, args[0], args[1:]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "read the streams of this `SELECTOR` instead of those that are derived from the rules")
	flags.StringVar(&f.pack, "pack", "", "`NAME` of the pack (default: the format)")
	flags.StringVar(&f.rulesOut, "rules-out", "", "write the packs to this `FILE`, or to files in this folder")
	flags.BoolVar(&f.strict, "strict", false, "refuse rules that are otherwise converted with a warning")
	flags.BoolVar(&f.skipRefused, "skip-refused", false, "exit with 0 even if rules were refused")
	flags.VarP(f.output, "output", "o", "output format")
	return cmd
}

var packName = lazyre.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (c *cli) rulesImport(f importFlags, format string, paths []string) error {
	if format != "cre" {
		return usageErrorf("unknown format %q: use cre", format)
	}
	if f.pack == "" {
		f.pack = format
	}
	if !packName.MatchString(f.pack) {
		return usageErrorf("%q is not a name of a pack: use letters, digits, dots and dashes", f.pack)
	}
	files, err := c.importFiles(paths)
	if err != nil {
		return err
	}
	result, err := importer.Import(files, importer.Options{Pack: f.pack, From: f.from, Strict: f.strict, Try: tryRules})
	if err != nil {
		return err
	}
	if err := c.writeImported(f, result); err != nil {
		return err
	}
	if result.Count(importer.Refused) > 0 && !f.skipRefused || len(result.Packs) == 0 {
		return exitCode(exitFailed)
	}
	return nil
}

func (c *cli) writeImported(f importFlags, r importer.Result) error {
	if f.output.value == "json" {
		packs := make([]map[string]any, len(r.Packs))
		for i, p := range r.Packs {
			packs[i] = map[string]any{"name": p.Name, "rules": p.Rules, "text": string(p.Data)}
		}
		if err := show.JSON(c.out, map[string]any{"rules": r.Outcomes, "packs": packs}, true); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	if err := show.WriteImported(c.err, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	switch {
	case f.rulesOut != "" && f.rulesOut != inputs.Stdin:
		return writePacks(f.rulesOut, r.Packs)
	case f.output.value == "json" || len(r.Packs) == 0:
		return nil
	case len(r.Packs) > 1:
		return needsFolder(r.Packs)
	}
	if _, err := c.out.Write(r.Packs[0].Data); err != nil {
		return fmt.Errorf("write the pack: %w", err)
	}
	return nil
}

func needsFolder(packs []importer.Pack) error {
	return fmt.Errorf("the rules need %d packs, because a pack has at most %d KiB: name a folder with --rules-out", len(packs), rules.MaxFileBytes>>10)
}

// writePacks writes one pack to a file, or any number of packs to a folder.
func writePacks(path string, packs []importer.Pack) error {
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir() || strings.HasSuffix(path, string(filepath.Separator))
	if folder {
		if err := os.MkdirAll(path, 0o750); err != nil {
			return fmt.Errorf("write --rules-out: %w", err)
		}
	} else if len(packs) > 1 {
		return needsFolder(packs)
	}
	for _, p := range packs {
		name := path
		if folder {
			name = filepath.Join(path, p.Name+".yaml")
		}
		if err := os.WriteFile(name, p.Data, 0o600); err != nil {
			return fmt.Errorf("write --rules-out: %w", err)
		}
	}
	return nil
}

func (c *cli) importFiles(paths []string) ([]importer.File, error) {
	read, problems := c.readRules(paths, withoutTests)
	if errs := problems.Errors(); len(errs) > 0 {
		return nil, errs
	}
	var files []importer.File
	for _, f := range read {
		if len(f.Data) > rules.MaxFileBytes {
			return nil, fmt.Errorf("read %s: it has more than %d MiB", f.Name, rules.MaxFileBytes>>20)
		}
		in := importer.File{Name: f.Name, Data: f.Data}
		if f.Name != "stdin" {
			var err error
			in.Found = !slices.Contains(paths, f.Name)
			if in.Sample, err = readSample(filepath.Join(filepath.Dir(f.Name), "test.log")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		files = append(files, in)
	}
	return files, nil
}

func readSample(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, importer.MaxSampleBytes))
}

// tryRules checks and tests a generated pack, and returns the rules that fail.
func tryRules(pack []byte) (importer.Trial, error) {
	const name = "imported.yaml"
	trial := importer.Trial{Failed: map[string]string{}, Warned: map[string][]string{}}
	docs, problems := loader.ParseFiles([]rules.File{{Name: name, Data: pack}})
	set, found := loader.BuildSet(docs, rules.Options{})
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
			trial.Failed[alert] = "crowsnest refuses the rule: " + problemText(p)
		case alert != "":
			trial.Warned[alert] = append(trial.Warned[alert], problemText(p))
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

func problemText(p strictyaml.Problem) string {
	if p.Fix == "" {
		return p.Message
	}
	return p.Message + "; " + p.Fix
}

// alertLines returns, for each line of a pack, the alert name of the rule that contains the line.
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
