package test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// issueForm is the syntax of GitHub's issue forms as far as it is used here.
type issueForm struct {
	Name, Description string
	Labels            []string
	Body              []struct {
		Type       string
		ID         string
		Attributes struct {
			Label, Description, Placeholder, Value, Render string
			Options                                        yaml.Node
		}
		Validations struct{ Required bool }
	}
}

// GitHub silently ignores a form that it does not understand.
func TestIssueForms(t *testing.T) {
	files, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml")
	require.NoError(t, err)
	forms := 0
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		forms++
		var f issueForm
		decodeStrictly(t, file, &f)
		require.NotEmpty(t, f.Name, file)
		require.NotEmpty(t, f.Description, file)
		ids, asks := map[string]bool{}, false
		for _, part := range f.Body {
			if part.Type == "markdown" {
				require.NotEmpty(t, part.Attributes.Value, file)
				continue
			}
			asks = true
			require.Contains(t, []string{"input", "textarea", "dropdown", "checkboxes"}, part.Type, file)
			require.Regexp(t, `^[a-z][a-z_-]*$`, part.ID, file)
			require.False(t, ids[part.ID], "%s: two parts have the id %s", file, part.ID)
			ids[part.ID] = true
			require.NotEmpty(t, part.Attributes.Label, "%s: %s", file, part.ID)
			choice := part.Type == "dropdown" || part.Type == "checkboxes"
			require.Equal(t, choice, len(part.Attributes.Options.Content) > 0, "%s: options of %s", file, part.ID)
		}
		require.True(t, asks, "%s asks nothing", file)
	}
	require.Equal(t, 3, forms)
}

func decodeStrictly(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	require.NoError(t, d.Decode(into), file)
}

// Nobody can change afterwards what a workflow runs: actions are pinned to a commit,
// with the tag beside it, which Dependabot reads. A job has the permissions that it
// states, and nothing else.
func TestWorkflowsArePinned(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 5)
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.*)$`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range append(files, "../action.yml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			require.Regexp(t, pinned, m[1], file)
		}
		if !slices.Contains(files, file) {
			continue
		}
		require.Contains(t, string(text), "\npermissions: {}\n", file)
		jobs := strings.Count(string(text), "\n    runs-on: ")
		require.Equal(t, jobs, strings.Count(string(text), "\n    permissions:"), "%s: a job without permissions", file)
		require.Equal(t, jobs, strings.Count(string(text), "\n    timeout-minutes: "), "%s: a job without a limit of time", file)
		require.Equal(t, strings.Count(string(text), "uses: actions/checkout@"), strings.Count(string(text), "persist-credentials: false"), file)
	}
}

// Dependabot watches every module.
func TestDependabotKnowsEveryModule(t *testing.T) {
	var config struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]map[string][]string
		}
	}
	decodeStrictly(t, "../.github/dependabot.yml", &config)
	var known []string
	for _, u := range config.Updates {
		for _, dir := range u.Directories {
			found, err := filepath.Glob(filepath.Join("..", dir, "go.mod"))
			require.NoError(t, err)
			require.NotEmpty(t, found, dir)
			known = append(known, found...)
		}
	}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if err == nil && d.Name() == "go.mod" {
			require.Contains(t, known, filepath.Clean(path))
		}
		return err
	})
	require.NoError(t, err)
}
