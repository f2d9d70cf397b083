//go:build e2e

package release

import (
	"archive/tar"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/child"
	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// The image has both platforms, the user, the labels and exactly the released binary.
// Built again it has the same digest. A registry on this machine holds it and a base
// image made here, since that of the configuration is elsewhere.
func TestImage(t *testing.T) {
	run(t, root, nil, "make", "release-tools")
	crane, err := filepath.Abs(root + "/bin/tools/crane")
	require.NoError(t, err)
	registry := startRegistry(t, crane)
	base := registry + "/base:nonroot"
	pushBase(t, crane, base)

	built := func(vars ...string) {
		run(t, root, nil, "make", append([]string{"image", "BASE=" + base, "VERSION=0.2.0"}, vars...)...)
	}
	layout := func() string {
		data, err := os.ReadFile(root + "/bin/image/layout/index.json")
		require.NoError(t, err)
		return string(data)
	}
	built()
	first := layout()
	built()
	require.Equal(t, first, layout(), "another build has another digest")

	image := registry + "/crowsnest"
	built("IMAGE=" + image)
	refs, err := os.ReadFile(root + "/bin/image/refs")
	require.NoError(t, err)
	digest := strings.TrimSpace(run(t, root, nil, crane, "digest", image+":0.2.0"))
	require.Equal(t, image+"@"+digest, strings.Split(string(refs), "\n")[0], "the workflow signs the first")
	require.Contains(t, first, digest, "the layout has another digest")

	for _, arch := range []string{"amd64", "arm64"} {
		var c struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
				Labels     map[string]string
			}
		}
		config := run(t, root, nil, crane, "config", "--platform", "linux/"+arch, image+":0.2.0")
		require.NoError(t, json.Unmarshal([]byte(config), &c))
		require.Equal(t, arch, c.Architecture)
		require.Equal(t, "65532:65532", c.Config.User)
		require.Equal(t, []string{"/ko-app/crowsnest"}, c.Config.Entrypoint)
		require.Equal(t, "0.2.0", c.Config.Labels["org.opencontainers.image.version"])
		require.Contains(t, c.Config.Labels["org.opencontainers.image.source"], "https://github.com/")

		binary := filepath.Join(t.TempDir(), "crowsnest")
		run(t, root, []string{"GOOS=linux", "GOARCH=" + arch}, "make", "build", "VERSION=0.2.0", "BRANCH=release", "BIN="+binary)
		want, err := os.ReadFile(binary)
		require.NoError(t, err)
		layers := filepath.Join(t.TempDir(), "all.tar")
		run(t, root, nil, crane, "export", "--platform", "linux/"+arch, image+":0.2.0", layers)
		got := run(t, root, nil, "tar", "-xOf", layers, "--wildcards", "*ko-app/crowsnest")
		require.True(t, got == string(want), "%s: the binary differs from that of make build", arch)
	}
}

// startRegistry starts a registry in memory and returns its address.
func startRegistry(t *testing.T, crane string) string {
	t.Helper()
	address := child.Address(servers.FreePort(t))
	p, err := child.Start(exec.Command(crane, "registry", "serve", "--address", address))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.End(syscall.SIGTERM, 5*time.Second) })
	require.NoError(t, wait.NoError(t.Context(), 30*time.Second, func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	}))
	return address
}

// pushBase pushes an image of two platforms that has one file.
func pushBase(t *testing.T, crane, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "base.tar")
	out, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(out)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "etc/passwd", Mode: 0o644, Size: 6}))
	_, err = w.Write([]byte("nobody"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	index := []string{"index", "append", "-t", name}
	for _, arch := range []string{"amd64", "arm64"} {
		part := strings.TrimSuffix(name, "nonroot") + arch
		run(t, root, nil, crane, "append", "-f", file, "-t", part)
		run(t, root, nil, crane, "mutate", "--set-platform", "linux/"+arch, "-t", part, part)
		index = append(index, "-m", part)
	}
	run(t, root, nil, crane, index...)
}
