package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// The command gives a copy of the repository a path, then another one. Each time no file
// names the path before. In the end every import resolves, and nothing is left to do.
func TestSet(t *testing.T) {
	dir := copyOf(t)
	before := "registry.example.org" + "/crowsnest:"
	for _, path := range []string{"github.com/Acme/crowsnest", "github.com/two/watch.er"} {
		changed, err := set(dir, path)
		require.NoError(t, err)
		require.Greater(t, changed, 300)
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(mod), "module "+path+"\n")
		require.Empty(t, run(t, dir, "git", "grep", "-lF", before), "they still name the path before")
		image := strings.ToLower("ghcr.io/" + strings.TrimPrefix(path, "github.com/"))
		require.Contains(t, run(t, dir, "git", "grep", "-hF", image), image+":")
		require.Equal(t, "* @"+strings.Split(path, "/")[1], lastLine(t, filepath.Join(dir, ".github/CODEOWNERS")))
		before = path + "/"
	}
	again, err := set(dir, strings.TrimSuffix(before, "/"))
	require.NoError(t, err)
	require.Zero(t, again)
	out := run(t, dir, "go", "list", "-deps", "-test", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...")
	require.Contains(t, out, before+"episodes\n")
	require.NotRegexp(t, `(?m)^(crowsnest|github.com/Acme/crowsnest)(/|$)`, out)
}

func lastLine(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

func TestSetRefuses(t *testing.T) {
	for _, path := range []string{
		"", "crowsnest", "github.com/owner", "gitlab.com/owner/crowsnest", "github.com/owner/crowsnest/v2",
		"github.com/-owner/crowsnest", "github.com/own er/crowsnest", "https://github.com/owner/crowsnest", "github.com/owner/..",
	} {
		_, err := set(t.TempDir(), path)
		require.ErrorContains(t, err, "is not github.com/OWNER/REPOSITORY", path)
	}
}

func TestReplaceName(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		require.Equal(t, want, string(replaceName([]byte(text), "a.b/c", "d.e/f", `[^\w/-]`)))
	}
	f("a.b/c", "d.e/f")
	f("a.b/c a.b/c\na.b/c:1", "d.e/f d.e/f\nd.e/f:1")
	f("https://a.b/c. See", "https://d.e/f. See")
	f("a.b/cd x.a.b/c a.b/c/packs a.b/c-x axb/c", "a.b/cd x.a.b/c a.b/c/packs a.b/c-x axb/c")
}

// Strings that only look like a package stay.
func TestRewriteGo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rules"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules", "a.go"), []byte("package rules\n"), 0o600))
	const src = `package p

import (
	"crowsnest"
	"fmt"

	r "crowsnest/rules"
)

const version, agent, built = "crowsnest/v1", "crowsnest", "crowsnest/rules" // crowsnest/rules
`
	out, err := rewriteGo(dir, []byte(src), "crowsnest", "x.org/y")
	require.NoError(t, err)
	require.Equal(t, `package p

import (
	"fmt"
	"x.org/y"

	r "x.org/y/rules"
)

const version, agent, built = "crowsnest/v1", "crowsnest", "x.org/y/rules" // crowsnest/rules
`, string(out))
}

// `go install PATH/cmd/crowsnest@latest` ignores modules with these lines.
func TestModuleCanBeInstalled(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NotRegexp(t, `(?m)^\s*(replace|exclude)\b`, string(mod))
}

// copyOf returns a copy of the files that git knows, in a repository of its own.
func copyOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := list(root)
	require.NoError(t, err)
	for _, name := range files {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || info.Mode()&fs.ModeType != 0 {
			continue // deleted in the working tree, or a link
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, info.Mode().Perm()))
	}
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", "-A")
	return dir
}

// run returns the output of a program. git grep ends with 1 if it finds nothing.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && !(args[0] == "grep" && exit.ExitCode() == 1) { //nolint:errorlint // of Output
		t.Fatalf("%s %v: %v: %s", name, args, err, exit.Stderr)
	}
	return string(out)
}
