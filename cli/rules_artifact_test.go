package cli

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/child"
	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
)

// command runs a command and returns its exit code and what it prints.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(args, strings.NewReader(""), &stdout, &stderr, func(string) string { return "" })
	return code, stdout.String(), stderr.String()
}

func TestPushVerifyPull(t *testing.T) { pushVerifyPull(t, packregistry.Start(t).Host) }

// pushVerifyPull plays publisher and user with a registry without TLS.
func pushVerifyPull(t *testing.T, host string) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	key, other := packregistry.NewKey(t), packregistry.NewKey(t)
	f := rulefolder.New(t)
	ref := host + "/team/packs"
	good := func(args ...string) (out, errOut string) {
		t.Helper()
		code, out, errOut := command(t, append([]string{"rules"}, args...)...)
		require.Zero(t, code, errOut)
		return out, errOut
	}
	bad := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, out, errOut := command(t, append([]string{"rules"}, args...)...)
		require.Equal(t, wantCode, code, errOut)
		require.Contains(t, errOut, want)
		require.Empty(t, out)
	}
	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a"))
	push := func(version string) []string {
		return []string{"push", "--plain-http", "--key", key.Private, "--tag", "stable", f.Dir, ref + ":" + version}
	}
	pinned, said := good(push("1.0.0")...)
	require.Contains(t, said, "1 file published as version 1.0.0 of packs, signed")
	require.True(t, strings.HasPrefix(pinned, ref+"@sha256:"), pinned)
	again, _ := good(push("1.0.0")...)
	require.Equal(t, pinned, again, "the same files have the same digest")

	out, _ := good("verify", "--plain-http", "--key", key.Public, ref+":stable")
	require.Regexp(t, `(?s)digest +sha256:.*title +packs\nversion +1\.0\.0\nfiles +1\n`, out)
	out, _ = good("verify", "--plain-http", "-o", "json", strings.TrimSpace(pinned))
	require.Contains(t, out, `"version": "1.0.0"`)

	dir := filepath.Join(t.TempDir(), "packs")
	pull := []string{"pull", "--plain-http", "--key", key.Public, ref + ":stable", dir}
	good(pull...)
	require.FileExists(t, filepath.Join(dir, "a.yaml"))
	_, said = good(pull...)
	require.Contains(t, said, "already")
	code, _, errOut := command(t, "test", "rules", dir)
	require.Zero(t, code, errOut)

	// A newer version replaces everything; an older one only if that is allowed.
	f.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	f.Remove("a.yaml")
	good(push("1.1.0")...)
	good(pull...)
	require.NoFileExists(t, filepath.Join(dir, "a.yaml"))
	require.FileExists(t, filepath.Join(dir, "b.yaml"))
	old := append([]string{}, pull...)
	old[4] = ref + ":1.0.0"
	bad(1, "is older than version 1.1.0, which is in use", old...)
	good(append(old, "--allow-older")...)
	require.FileExists(t, filepath.Join(dir, "a.yaml"))

	bad(1, "none was made with the given public key", "verify", "--plain-http", "--key", other.Public, ref+":stable")
	bad(1, "older than the required 2.0.0", "verify", "--plain-http", "--key", key.Public, "--min-version", "2.0.0", ref+":stable")
	bad(2, "--key, or the digest", "verify", "--plain-http", ref+":stable")
	bad(2, "neither a tag nor a digest", "verify", "--key", key.Public, ref)
	bad(1, "does not use TLS", "verify", "--key", key.Public, ref+":stable")
	bad(1, "does not have it", "verify", "--plain-http", "--key", key.Public, ref+":none")
	bad(1, "did not write", "pull", "--plain-http", "--key", key.Public, ref+":stable", f.Dir)
	bad(1, "already published with other content", push("1.0.0")...)
	bad(1, "not a semantic version", push("newest")...)
	bad(2, "is not in the future", "push", "--expires", "2026-01-01", f.Dir, ref+":1.0.0")
	bad(2, "is not a date", "push", "--expires", "soon", f.Dir, ref+":1.0.0")
	bad(2, "needs a version as its tag", "push", f.Dir, strings.TrimSpace(pinned))
	f.Write("c.yaml", strings.Replace(rulefolder.Pack("c", "C", "text of c"), `line: "text of c`, `line: "other`, 1))
	bad(1, "is not published", push("1.2.0")...)
	f.Write("c.yaml", rulefolder.Pack("c", "C", "text of c")+"  unknown: key\n")
	bad(1, "c.yaml:13:3", push("1.2.0")...)
}

// A pull that is killed at any request leaves the previous files, and the next one works.
func TestKilledPull(t *testing.T) {
	program, err := exec.LookPath("crowsnest") // testscript puts this program there
	require.NoError(t, err)
	r, key := packregistry.Start(t), packregistry.NewKey(t)
	f := rulefolder.New(t)
	ref := r.Host + "/team/packs"
	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a"))
	publish := func(version string) {
		code, _, errOut := command(t, "rules", "push", "--plain-http", "--key", key.Private, "--tag", "stable", f.Dir, ref+":"+version)
		require.Zero(t, code, errOut)
	}
	publish("1.0.0")
	dir := filepath.Join(t.TempDir(), "packs")
	pull := []string{"rules", "pull", "--plain-http", "--key", key.Public, ref + ":stable", dir}
	code, _, errOut := command(t, pull...)
	require.Zero(t, code, errOut)
	f.Write("b.yaml", rulefolder.Pack("b", "B", "text of b"))
	publish("1.1.0")
	before := r.Requests()
	code, _, errOut = command(t, "rules", "verify", "--plain-http", "--key", key.Public, ref+":stable")
	require.Zero(t, code, errOut)
	for at := range r.Requests() - before {
		reached, n := make(chan struct{}), 0
		r.Instead(func(_ http.ResponseWriter, req *http.Request) bool {
			if n++; n <= at {
				return false
			}
			close(reached)
			<-req.Context().Done()
			return true
		})
		p, err := child.Start(exec.Command(program, pull...))
		require.NoError(t, err)
		<-reached
		require.NoError(t, p.Signal(syscall.SIGKILL))
		<-p.Done()
		require.NoFileExists(t, filepath.Join(dir, "b.yaml"))
		require.FileExists(t, filepath.Join(dir, "a.yaml"))
	}
	r.Instead(nil)
	code, _, errOut = command(t, pull...)
	require.Zero(t, code, errOut)
	require.FileExists(t, filepath.Join(dir, "b.yaml"))
	around, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, around, 1)
}

// A check of a configuration says what it cannot know: rules that were not fetched yet.
func TestCheckConfigWithArtifacts(t *testing.T) {
	key := packregistry.NewKey(t)
	f := rulefolder.New(t)
	f.Write("over.yaml", "overrides:\n- rule: NotThere\n  disable: for now\n")
	f.Write("c.yml", `rules:
  artifacts: [{reference: "registry.example.org/packs:stable", public_key_file: `+key.Public+`}]
  overrides: [over.yaml]
sources: {kubelet: {}}
storage: {path: state}
`)
	code, out, errOut := command(t, "check", "config", filepath.Join(f.Dir, "c.yml"))
	require.Zero(t, code, out)
	require.Contains(t, out, "c.yml:2:27: warning: the packs of this artifact are not checked")
	require.Contains(t, out, "over.yaml:2:9: warning: the override matches no rule")
	require.Contains(t, errOut, "0 errors, 2 warnings")
	f.Write("c.yml", `rules: {artifacts: [{reference: "registry.example.org/packs:stable", public_key_file: none.pub}]}
sources: {kubelet: {}}
`)
	code, out, _ = command(t, "check", "config", filepath.Join(f.Dir, "c.yml"))
	require.Equal(t, 1, code)
	require.Contains(t, out, "none.pub: no such file or directory")
}
