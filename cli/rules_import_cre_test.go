package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/loader"
	"crowsnest/lab/importer"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
)

// publicCREs has the public rules of the CRE project. Nothing of it is in this repository.
const publicCREs = "../../shared/peers/cre/rules"

// knownForeign are the pairs of a rule and the log of another one of the same technology on which
// the rule fires. docs/import.md explains each: the log has the lines that the rule describes.
var knownForeign = []string{
	"CRE-2025-0051 on the log of CRE-2025-0075",
	"CRE-2025-0054 on the log of CRE-2025-0075",
	"CRE-2025-0054 on the log of CRE-2025-0121",
	"CRE-2025-0080 on the log of CRE-2025-0092",
	"CRE-2025-0092 on the log of CRE-2025-0080",
	"CRE-2025-0107 on the log of CRE-2025-0080",
	"CRE-2025-0107 on the log of CRE-2025-0099",
	"CRE-2025-0112 on the log of CRE-2025-0122",
	"CRE-2025-0115 on the log of CRE-2025-0113",
	"CRE-2025-0115 on the log of CRE-2025-0126",
	"CRE-2026-0005 on the log of CRE-2026-0317",
	"CRE-2026-0265 on the log of CRE-2026-0310",
	"CRE-2026-0273 on the log of CRE-2025-0137",
	"CRE-2026-0273 on the log of CRE-2026-0169",
	"CRE-2026-0275 on the log of CRE-2025-0071",
	"CRE-2026-0275 on the log of CRE-2025-0108",
	"CRE-2026-0275 on the log of CRE-2025-0119",
	"CRE-2026-0276 on the log of CRE-2025-0020",
	"CRE-2026-0276 on the log of CRE-2025-0077",
	"CRE-2026-0276 on the log of CRE-2025-0141",
	"CRE-2026-0276 on the log of CRE-2025-0176",
	"CRE-2026-0276 on the log of CRE-2026-0281",
	"CRE-2026-0276 on the log of CRE-2026-0301",
	"CRE-2026-0279 on the log of CRE-2026-0322",
	"CRE-2026-0281 on the log of CRE-2025-0176",
	"CRE-2026-0282 on the log of CRE-2025-0072",
	"CRE-2026-0282 on the log of CRE-2025-0073",
	"CRE-2026-0282 on the log of CRE-2025-0200",
	"CRE-2026-0282 on the log of CRE-2025-0201",
	"CRE-2026-0283 on the log of CRE-2025-0174",
	"CRE-2026-0283 on the log of CRE-2025-0200",
	"CRE-2026-0284 on the log of CRE-2025-0072",
	"CRE-2026-0284 on the log of CRE-2025-0178",
	"CRE-2026-0284 on the log of CRE-2025-0200",
	"CRE-2026-0287 on the log of CRE-2025-0177",
	"CRE-2026-0288 on the log of CRE-2025-0173",
	"CRE-2026-0288 on the log of CRE-2025-0175",
	"CRE-2026-0312 on the log of CRE-2026-0001",
	"CRE-2026-0312 on the log of CRE-2026-0009",
	"CRE-2026-0317 on the log of CRE-2026-0005",
}

// creSource finds the source of a CRE, which names its technology.
var creSource = regexp.MustCompile(`(?m)^ +source: *"?([^\s"]+)`)

// Every public CRE is translated or refused with a reason; each translated one fires on its own
// log, and on the logs of others only where docs/import.md says so.
func TestPublicCREs(t *testing.T) {
	if _, err := os.Stat(publicCREs); err != nil {
		t.Skip("there are no public CREs on this machine")
	}
	c := &cli{}
	files, err := c.importFiles([]string{publicCREs})
	require.NoError(t, err)
	result, err := importer.Import(files, importer.Options{Pack: "cre", Try: tryRules})
	require.NoError(t, err)
	set := importedSet(t, result)

	own, streams := map[string]*rules.Rule{}, map[string]matcher.Labels{} // rules by file, labels by source
	for _, o := range result.Outcomes {
		require.True(t, o.Status == importer.Converted || len(o.Reasons) > 0, o.File)
		if r := set.Rule(o.Alert); r != nil {
			own[o.File] = r
		}
	}
	for _, f := range files {
		if r := own[f.Name]; r != nil && len(r.Tests) > 0 {
			streams[sourceOfCRE(f)] = r.Tests[0].Stream
		}
	}
	var foreign []string
	programs := compiledRules{}
	pairs, logs := 0, 0
	for _, f := range files {
		labels := streams[sourceOfCRE(f)]
		if len(f.Sample) == 0 || labels == nil {
			continue
		}
		logs++
		var readers []*rules.Rule // rules that would read this log
		for _, r := range set.Rules {
			if r.From.Matches(labels, false) {
				readers = append(readers, r)
			}
		}
		fired := programs.firing(t, readers, labels, f.Sample)
		for _, r := range readers {
			if r == own[f.Name] {
				require.Contains(t, fired, r.Alert, "the rule does not fire on its own log")
				continue
			}
			pairs++
			if slices.Contains(fired, r.Alert) {
				foreign = append(foreign, idOf(r)+" on the log of "+strings.ToUpper(filepath.Base(filepath.Dir(f.Name))))
			}
		}
	}
	require.GreaterOrEqual(t, len(set.Rules), 340)
	slices.Sort(foreign)
	t.Logf("%d rules of %d files, %d logs, %d pairs of a rule and the log of another one", len(set.Rules), len(files), logs, pairs)
	require.Equal(t, knownForeign, foreign)
}

func sourceOfCRE(f importer.File) string {
	if m := creSource.FindSubmatch(f.Data); m != nil {
		return string(m[1])
	}
	return ""
}

func idOf(r *rules.Rule) string {
	for _, a := range r.Annotations {
		if a.Name == "cre" {
			return a.Template.Source()
		}
	}
	return r.Alert
}

// importedSet builds the packs of an import together.
func importedSet(t *testing.T, r importer.Result) *rules.Set {
	t.Helper()
	var files []rules.File
	for _, p := range r.Packs {
		files = append(files, rules.File{Name: p.Name + ".yaml", Data: p.Data})
	}
	docs, problems := loader.ParseFiles(files)
	set, found := loader.BuildSet(docs, rules.Options{})
	require.Empty(t, slices.Concat(problems, found).Errors())
	return set
}

// compiledRules are programs by the labels of the stream that they read.
type compiledRules map[string]*matcher.Program

// firing returns the names of the rules that raise an alert over a log. The rules depend on the
// labels only.
func (c compiledRules) firing(t *testing.T, all []*rules.Rule, labels matcher.Labels, log []byte) []string {
	t.Helper()
	set := &rules.Set{Rules: all}
	key := fmt.Sprint(labels)
	prog := c[key]
	if prog == nil {
		var err error
		prog, err = matcher.Compile(set)
		require.NoError(t, err)
		c[key] = prog
	}
	in := replay.Input{Name: "test.log", Labels: labels, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }}
	report, err := replay.Scan(set, prog, []replay.Input{in}, replay.ScanOptions{Lenient: true, Now: time.Now()})
	require.NoError(t, err)
	var out []string
	for _, a := range report.Alerts {
		out = append(out, a.Episode.Rule.Alert)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out)
}
