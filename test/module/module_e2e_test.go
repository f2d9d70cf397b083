//go:build e2e

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command as an owner types it, then the installation as a user types it, from a
// module proxy in a folder.
func TestOwnerPublishesAndUserInstalls(t *testing.T) {
	const path, version = "github.com/acme/crowsnest", "v0.2.0"
	dir := copyOf(t)
	out := run(t, dir, "make", "module", "PATH="+path)
	require.Contains(t, out, "now "+path)
	require.Contains(t, out, "ok  \t"+path+"/rules")

	// What the proxy of Go makes of a tag: the module without the modules inside it.
	run(t, dir, "git", "add", "-A")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "Set the owner")
	proxy := filepath.Join(t.TempDir(), path, "@v")
	require.NoError(t, os.MkdirAll(proxy, 0o755))
	archive := []string{"archive", "--format=zip", "--prefix=" + path + "@" + version + "/", "-o", filepath.Join(proxy, version+".zip"), "HEAD", "."}
	for _, inner := range strings.Fields(run(t, dir, "git", "ls-files", "*/go.mod")) {
		archive = append(archive, ":!"+filepath.Dir(inner))
	}
	run(t, dir, "git", archive...)
	run(t, dir, "cp", "go.mod", filepath.Join(proxy, version+".mod"))
	require.NoError(t, os.WriteFile(filepath.Join(proxy, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(proxy, "list"), []byte(version+"\n"), 0o600))

	bin, cache := t.TempDir(), strings.TrimSpace(run(t, dir, "go", "env", "GOMODCACHE"))
	t.Setenv("GOPROXY", "file://"+strings.TrimSuffix(proxy, "/"+path+"/@v")+",file://"+filepath.Join(cache, "cache/download"))
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GONOSUMDB", "*")
	t.Setenv("GOFLAGS", "-modcacherw -trimpath")
	t.Setenv("GOBIN", bin)
	run(t, bin, "go", "install", path+"/cmd/crowsnest@latest")
	require.Contains(t, run(t, bin, "./crowsnest", "version"), "crowsnest, version "+strings.TrimPrefix(version, "v")+" ")
}
