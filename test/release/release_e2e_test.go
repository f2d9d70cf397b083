//go:build e2e

package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/child"
	"crowsnest/test/servers"
)

const root = "../.."

// A snapshot contains everything, and its packages install, start, upgrade and
// disappear as they should. Builds of the same commit elsewhere have the same bytes.
func TestSnapshot(t *testing.T) {
	first, second := snapshot(t, "0.1.0"), snapshot(t, "0.2.0")
	t.Run("files", func(t *testing.T) { files(t, second) })
	t.Run("same bytes elsewhere", func(t *testing.T) { elsewhere(t, second) })
	for _, kind := range []string{"deb", "rpm"} {
		t.Run(kind, func(t *testing.T) {
			packages(t, kind, one(t, first, "*"+native[kind]), one(t, second, "*"+native[kind]))
		})
	}
}

// native are the ends of the names of packages for this machine.
var native = map[string]string{
	"deb": "_" + runtime.GOARCH + ".deb",
	"rpm": map[string]string{"amd64": ".x86_64.rpm", "arm64": ".aarch64.rpm"}[runtime.GOARCH],
}

// snapshot returns a folder with a release of this version.
func snapshot(t *testing.T, version string) string {
	t.Helper()
	run(t, root, nil, "make", "release-snapshot", "VERSION="+version)
	dir := filepath.Join(t.TempDir(), "dist")
	run(t, root, nil, "mv", "dist", dir)
	return dir
}

func files(t *testing.T, dist string) {
	run(t, dist, nil, "sha256sum", "--check", "--strict", "--quiet", "checksums.txt")
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	require.NoError(t, err)
	require.Equal(t, 12, bytes.Count(sums, []byte("\n")), "4 archives, 4 packages and 4 SBOMs, in %s", sums)

	listed := run(t, dist, nil, "tar", "-tzf", one(t, dist, "crowsnest_0.2.0_darwin_arm64.tar.gz"))
	for _, name := range []string{"crowsnest", "LICENSE", "examples/agent.yml", "completions/crowsnest.zsh"} {
		require.Contains(t, strings.Split(listed, "\n"), name)
	}
	require.NotContains(t, run(t, dist, nil, "dpkg", "-c", one(t, dist, "*_amd64.deb")), "\ndrw-", "a folder that only root can enter")

	var bom struct {
		Packages []struct{ Name, VersionInfo string }
	}
	data, err := os.ReadFile(one(t, dist, "crowsnest_0.2.0_linux_amd64.spdx.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &bom))
	require.Greater(t, len(bom.Packages), 50)

	plugin(t, filepath.Join(dist, "krew/crowsnest.yaml"), dist)
	cask, err := os.ReadFile(filepath.Join(dist, "homebrew/Casks/crowsnest.rb"))
	require.NoError(t, err)
	require.Contains(t, string(cask), `cask "crowsnest"`)
	require.Contains(t, string(cask), "/releases/download/")
}

// elsewhere builds in another folder, without git, with another cache, umask and time
// zone.
func elsewhere(t *testing.T, dist string) {
	dir := filepath.Join(t.TempDir(), "another", "folder")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	run(t, root, nil, "sh", "-c", `git ls-files -zco --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -m -C "$0"`, dir)
	revision := strings.TrimSpace(run(t, root, nil, "git", "rev-parse", "HEAD"))
	env := []string{"GOCACHE=" + t.TempDir(), "TZ=Asia/Tokyo", "GOFLAGS="}
	run(t, dir, env, "sh", "-c", "umask 077 && make build VERSION=0.2.0 BRANCH=release REVISION="+revision)
	built, err := os.ReadFile(filepath.Join(dir, "bin/crowsnest"))
	require.NoError(t, err)
	released := run(t, dist, nil, "tar", "-xzOf", one(t, dist, "crowsnest_0.2.0_linux_"+runtime.GOARCH+".tar.gz"), "crowsnest")
	require.True(t, released == string(built), "the builds differ: %d and %d bytes", len(released), len(built))
}

// packages plays the life of a package on a copy of this machine on which systemd runs.
func packages(t *testing.T, kind, first, second string) {
	needRoot(t)
	for _, tool := range []string{"unshare", "systemd-analyze", installer[kind]} {
		servers.Program(t, tool)
	}
	in := t.TempDir()
	for name, file := range map[string]string{"1." + kind: first, "2." + kind: second, "script.sh": "package.sh"} {
		run(t, ".", nil, "cp", file, filepath.Join(in, name))
	}
	t.Cleanup(func() {
		out, err := os.ReadFile(filepath.Join(in, "out"))
		require.NoError(t, err)
		t.Logf("%s", out)
	})
	run(t, ".", nil, "sh", "boot.sh", in, controlGroup(t))
	out, err := os.ReadFile(filepath.Join(in, "out"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(out), "== done\n"))
}

// controlGroup returns an empty control group where systemd keeps its own.
func controlGroup(t *testing.T) string {
	t.Helper()
	parent := "/sys/fs/cgroup/systemd"
	if _, err := os.Stat(parent + "/cgroup.procs"); err != nil {
		parent = "/sys/fs/cgroup"
	}
	group, err := os.MkdirTemp(parent, "crowsnest-test-")
	require.NoError(t, err)
	// If systemd was killed, it left groups of its services.
	t.Cleanup(func() { run(t, ".", nil, "find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";") })
	return group
}

var installer = map[string]string{"deb": "dpkg", "rpm": "rpm"}

// needRoot skips the test, or fails it where everything is required.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CROWSNEST_SERVERS") == "required" {
		t.Fatal("only root can install packages; run make e2e as root")
	}
	t.Skip("only root can install packages")
}

// one returns the file of a folder with this name.
func one(t *testing.T, dir, glob string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, glob))
	require.NoError(t, err)
	require.Len(t, found, 1, "%s in %s", glob, dir)
	return found[0]
}

// run returns the standard output of a program that has to succeed within 20 minutes.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	var out, all bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &all
	p, err := child.Start(cmd)
	require.NoError(t, err)
	guard := time.AfterFunc(20*time.Minute, func() { _ = p.Signal(os.Kill) })
	defer guard.Stop()
	err = p.Wait()
	tail := out.String()
	require.NoError(t, err, "%s %s\n%s\n%s", name, strings.Join(args, " "), tail[max(0, len(tail)-4000):], all.String())
	return out.String()
}
