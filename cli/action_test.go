package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
)

// repoRoot is where action.yml and the hooks are.
const repoRoot = ".."

// action is what of GitHub's action.yml is used: anything else is a mistake, or
// new here.
type action struct {
	Name        string                  `yaml:"name" strict:"required"`
	Description string                  `yaml:"description" strict:"required"`
	Author      string                  `yaml:"author"`
	Branding    map[string]string       `yaml:"branding"`
	Inputs      map[string]actionInput  `yaml:"inputs"`
	Outputs     map[string]actionOutput `yaml:"outputs"`
	Runs        struct {
		Using string       `yaml:"using"`
		Steps []actionStep `yaml:"steps"`
	} `yaml:"runs"`
}

type actionInput struct {
	Description string `yaml:"description"`
	Default     string `yaml:"default"`
}

type actionOutput struct {
	Description string `yaml:"description"`
	Value       string `yaml:"value"`
}

type actionStep struct {
	ID    string            `yaml:"id"`
	If    string            `yaml:"if"`
	Uses  string            `yaml:"uses"`
	With  map[string]string `yaml:"with"`
	Shell string            `yaml:"shell"`
	Env   map[string]string `yaml:"env"`
	Run   string            `yaml:"run"`
}

// readAction reads action.yml. A script of testscript runs elsewhere, so root is
// absolute there.
func readAction(root string) (action, error) {
	var a action
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		return a, err
	}
	if problems := strictyaml.Decode("action.yml", data, &a, strictyaml.Options{}); len(problems) > 0 {
		return a, problems
	}
	return a, nil
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// evaluate replaces expressions by values: names, and the first of several that
// is not empty.
func evaluate(text string, value func(name string) string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		for name := range strings.SplitSeq(expression.FindStringSubmatch(e)[1], "||") {
			if v := value(strings.TrimSpace(name)); v != "" {
				return v
			}
		}
		return ""
	})
}

// runAction is the command `action STEP [name=value]...` of scripts: it runs the
// shell of one step with these inputs and parts of the context; @FILE stands for
// what is in a file.
func runAction(root string) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		a, err := readAction(root)
		ts.Check(err)
		given := map[string]string{"github.action_path": root}
		for name, in := range a.Inputs {
			given["inputs."+name] = in.Default
		}
		for _, arg := range args[1:] {
			name, value, _ := strings.Cut(arg, "=")
			if file, ok := strings.CutPrefix(value, "@"); ok {
				value = strings.TrimSpace(ts.ReadFile(file))
			}
			given[name] = strings.ReplaceAll(value, `\n`, "\n")
		}
		for _, s := range a.Runs.Steps {
			if s.ID != args[0] {
				continue
			}
			for name, text := range s.Env {
				ts.Setenv(name, evaluate(text, func(name string) string { return given[name] }))
			}
			err := ts.Exec("bash", "-c", s.Run)
			if (err != nil) != neg {
				ts.Fatalf("step %s: %v", s.ID, err)
			}
			return
		}
		ts.Fatalf("action.yml has no step %s", args[0])
	}
}

// Values reach the shell by the environment only: an input, a branch or a title
// in a script would be a part of it.
func TestActionIsSafe(t *testing.T) {
	a, err := readAction(repoRoot)
	require.NoError(t, err)
	require.Equal(t, "composite", a.Runs.Using)
	known := map[string]bool{}
	for name, in := range a.Inputs {
		require.NotEmpty(t, in.Description, name)
		known["inputs."+name] = true
	}
	used := map[string]bool{}
	name := regexp.MustCompile(`\binputs\.[a-z-]+`)
	for _, s := range a.Runs.Steps {
		require.NotContains(t, s.Run, "${{", s.ID)
		if s.Run != "" {
			require.Equal(t, "bash", s.Shell, s.ID)
			require.True(t, strings.HasPrefix(s.Run, "set -euo pipefail\n"), s.ID)
		}
		texts := []string{s.If}
		for _, text := range s.Env {
			texts = append(texts, text)
		}
		for _, in := range name.FindAllString(strings.Join(texts, " "), -1) {
			require.True(t, known[in], "%s uses %s", s.ID, in)
			used[in] = true
		}
	}
	require.Equal(t, known, used)
}

// hook is a hook of pre-commit.
type hook struct {
	ID      string   `yaml:"id" strict:"required"`
	Name    string   `yaml:"name" strict:"required"`
	About   string   `yaml:"description"`
	Entry   string   `yaml:"entry" strict:"required"`
	Args    []string `yaml:"args"`
	Lang    string   `yaml:"language" strict:"required"`
	Files   string   `yaml:"files"`
	Pass    bool     `yaml:"pass_filenames"`
	Minimum string   `yaml:"minimum_pre_commit_version"`
}

func TestHooks(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repoRoot, ".pre-commit-hooks.yaml"))
	require.NoError(t, err)
	var all struct {
		Hooks []hook `yaml:"hooks"`
	}
	problems := strictyaml.Decode(".pre-commit-hooks.yaml", append([]byte("hooks:\n"), data...), &all, strictyaml.Options{})
	require.Empty(t, problems)
	require.Len(t, all.Hooks, 2)
	for _, h := range all.Hooks {
		require.Equal(t, "golang", h.Lang)
		require.True(t, regexp.MustCompile(h.Files).MatchString("rules/a.yaml"))
		words := strings.Fields(h.Entry)
		require.Equal(t, "crowsnest", words[0])
		cmd, rest, err := newRoot(&cli{getenv: func(string) string { return "" }}).Find(words[1:])
		require.NoError(t, err)
		require.True(t, cmd.Runnable() && !cmd.HasSubCommands(), h.Entry)
		require.NoError(t, cmd.ParseFlags(rest))
		require.NoError(t, cmd.ValidateArgs(h.Args))
	}
}
