package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crowsnest/replay"
	"crowsnest/rules"
)

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every pack in the documents can be loaded and passes its tests.
func TestPacksInDocs(t *testing.T) {
	packs := 0
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "pack:") {
				continue
			}
			packs++
			d, problems := rules.Parse(rules.File{Name: filepath.Base(doc), Data: []byte(counted(m[1]))})
			require.Empty(t, problems)
			set, problems := rules.Build([]*rules.Document{d}, rules.Options{Shipped: true})
			require.Empty(t, problems)
			report, err := replay.RunTests(set.Rules, replay.TestOptions{})
			require.NoError(t, err)
			require.NotEmpty(t, report.Results)
			require.Zero(t, report.Failed(), "%v", report.Results)
		}
	}
	require.NotZero(t, packs)
}

// counted returns a pack with its number of rules: shipped ones state it, but those of users
// need not.
func counted(pack string) string {
	header, rest, _ := strings.Cut(pack, "\n")
	if n := strings.Count(rest, "\n- alert: "); !strings.Contains(header, "rules:") {
		header = fmt.Sprintf("%s, rules: %d}", strings.TrimSuffix(header, "}"), n)
	}
	return header + "\n" + rest
}

// documents returns the handwritten pages.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, glob := range []string{"../*.md", "../docs/*.md", "../.github/*.md"} {
		found, err := filepath.Glob(glob)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		all = append(all, found...)
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// Every link in the documents leads to an existing file and heading.
func TestLinksInDocs(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(doc), path)
			if path == "" {
				target = doc
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", doc, m[1])
			if fragment != "" {
				require.Contains(t, anchors(t, target), fragment, "%s links to %s", doc, m[1])
			}
		}
	}
}

// The README links the index of the documents, and one of them links every document.
func TestDocsAreLinked(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "](docs/README.md)")
	index, err := os.ReadFile("../docs/README.md")
	require.NoError(t, err)
	docs, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, doc := range docs {
		name := filepath.Base(doc)
		linked := strings.Contains(string(readme), "](docs/"+name+")") || strings.Contains(string(index), "]("+name+")")
		require.True(t, linked, "link %s from docs/README.md", name)
	}
}

// The README has the same commands from nothing to the first alert as docs/deploy.md,
// whose commands a test runs.
func TestFirstAlertInREADME(t *testing.T) {
	commands := func(file, heading string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
		require.True(t, found, "%s has no section %s", file, heading)
		block := regexp.MustCompile("(?s)```\n(kubectl create.*?)```").FindStringSubmatch(section)
		require.NotNil(t, block, file)
		return block[1]
	}
	want := commands("../docs/deploy.md", "From nothing to the first alert")
	require.Equal(t, want, commands("../README.md", "The first alert in a cluster"))
	require.Equal(t, 5, strings.Count(want, "\n"))
}

// anchors returns the link targets that GitHub generates for the headings of a
// page.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// The figures in the comparison appear in the page on performance.
func TestFiguresOfComparison(t *testing.T) {
	comparison, err := os.ReadFile("../docs/comparison.md")
	require.NoError(t, err)
	performance, err := os.ReadFile("../docs/performance.md")
	require.NoError(t, err)
	found := 0
	for _, paragraph := range strings.Split(string(comparison), "\n\n") {
		if !strings.Contains(paragraph, "(performance.md)") {
			continue
		}
		for _, figure := range regexp.MustCompile(`\d+\.\d+|\b[2-9]\d\d\b`).FindAllString(paragraph, -1) {
			found++
			require.Regexp(t, `\b`+regexp.QuoteMeta(figure)+`\b`, string(performance))
		}
	}
	require.GreaterOrEqual(t, found, 8)
}

// Every test that a document names exists. `TestX*` stands for all tests with that prefix.
func TestTestsInDocs(t *testing.T) {
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
		return err
	}))
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`((?:Test|Benchmark)[A-Z]\\w*)(\\*?)`").FindAllStringSubmatch(string(text), -1) {
			found := names[m[1]]
			for name := range names {
				found = found || m[2] != "" && strings.HasPrefix(name, m[1])
			}
			assert.True(t, found, "%s names %s", doc, m[1])
		}
	}
}
