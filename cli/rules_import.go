package cli

import (
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
	"crowsnest/importer"
	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs"
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
		Long: `Translates files of CREs (Common Reliability Enumerations) into packs. test.log beside a
file becomes inline tests.

A rule means the same in the pack, or it is refused with the reason. Severity, texts,
instructions and references are carried over. Each rule was checked and its tests were
run before it is written; one that fails is refused.

A table on standard error lists what became of each rule: converted, converted with a
warning, or refused. The exit code is 1 if a rule was refused, unless --skip-refused is
given. The packs go to standard output, or to --rules-out. -o json prints the table
and the packs as one JSON document on standard output.

The streams of a rule are derived from the source of the CRE. --from states them
instead, for all rules of the run.`,
		Example: `  crowsnest rules import cre --rules-out packs/ cre/rules/
  crowsnest rules import cre --from '{namespace="shop"}' relay.yaml > relay-pack.yaml`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return c.rulesImport(f, args[0], args[1:]) },
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

// removedFormats says what to use instead of formats that were imported once.
var removedFormats = map[string]string{
	"loki":             "leave alerts in LogQL to Loki's ruler, or write the rule with `crowsnest rules new`",
	"prometheus-logql": "leave alerts in LogQL to Loki's ruler, or write the rule with `crowsnest rules new`",
	"npd":              "read the journal (sources of type journal), which has rules for the kernel's messages, or write the rule with `crowsnest rules new`",
}

var packName = lazyre.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (c *cli) rulesImport(f importFlags, format string, paths []string) error {
	if instead := removedFormats[format]; instead != "" {
		return usageErrorf("the format %s is no longer imported: %s", format, instead)
	}
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

// writeImported writes the packs and the table.
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
	if err := show.Imported(c.err, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	switch {
	case f.rulesOut != "" && f.rulesOut != inputs.Stdin:
		return writePacks(f.rulesOut, r.Packs)
	case f.output.value == "json" || len(r.Packs) == 0:
		return nil
	case len(r.Packs) > 1:
		return fmt.Errorf("the rules need %d packs, because a pack has at most %d KiB: name a folder with --rules-out", len(r.Packs), rules.MaxFileBytes>>10)
	}
	if _, err := c.out.Write(r.Packs[0].Data); err != nil {
		return fmt.Errorf("write the pack: %w", err)
	}
	return nil
}

// writePacks writes one pack to a file, or any number to a folder.
func writePacks(path string, packs []importer.Pack) error {
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir() || strings.HasSuffix(path, string(filepath.Separator))
	if folder {
		if err := os.MkdirAll(path, 0o750); err != nil {
			return fmt.Errorf("write --rules-out: %w", err)
		}
	} else if len(packs) > 1 {
		return fmt.Errorf("the rules need %d packs, because a pack has at most %d KiB: name a folder with --rules-out", len(packs), rules.MaxFileBytes>>10)
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

// Bounds on the files of one import.
const (
	maxImportFiles = 10_000
	maxImportBytes = 128 << 20
)

// importReader reads the files of an import, each with the test.log beside it, within the bounds.
type importReader struct {
	c     *cli
	files []importer.File
	size  int
}

func (c *cli) importFiles(paths []string) ([]importer.File, error) {
	r := &importReader{c: c}
	for _, p := range paths {
		if p == inputs.Stdin {
			data, err := io.ReadAll(io.LimitReader(c.in, importer.MaxFileBytes+1))
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			r.files = append(r.files, importer.File{Name: "stdin", Data: data})
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p, errors.Unwrap(err))
		}
		if !info.IsDir() {
			if err := r.read(p, false); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.folder(p); err != nil {
			return nil, err
		}
	}
	return r.files, nil
}

func (r *importReader) folder(root string) error {
	before := len(r.files)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), "..") && path != root {
			return filepath.SkipDir // the data of a mounted ConfigMap, whose files are links to it
		}
		if !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // a link to nothing or to a folder is no file of rules
		}
		return r.read(path, true)
	})
	if err == nil && len(r.files) == before {
		return fmt.Errorf("the folder %s has no *.yaml, *.yml", root)
	}
	return err
}

func (r *importReader) read(path string, found bool) error {
	data, err := readBounded(path, importer.MaxFileBytes+1)
	if err != nil {
		return err
	}
	f := importer.File{Name: path, Data: data, Found: found}
	f.Sample, err = readBounded(filepath.Join(filepath.Dir(path), "test.log"), importer.MaxSampleBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r.files = append(r.files, f)
	r.size += len(f.Data) + len(f.Sample)
	if len(r.files) > maxImportFiles || r.size > maxImportBytes {
		return fmt.Errorf("there are more than %d files or %d MiB up to %s: import fewer of them at once", maxImportFiles, maxImportBytes>>20, path)
	}
	return nil
}

// readBounded reads the start of a regular file.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is not a regular file; use - for a pipe", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, errors.Unwrap(err))
	}
	defer f.Close() //nolint:errcheck // the file was only read
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
