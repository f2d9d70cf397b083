package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"crowsnest/test/child"
)

// Registry starts the registry of the CNCF project Distribution, without TLS and
// authentication.
func Registry(t testing.TB) *Server {
	t.Helper()
	dir, addr := t.TempDir(), child.Address(FreePort(t))
	config := filepath.Join(dir, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatalf("start registry: %v", err)
	}
	s := &Server{
		Name: "registry", URL: "http://" + addr, Dir: dir, t: t, bin: Program(t, "registry"),
		args: []string{"serve", config}, ready: "/v2/",
	}
	s.start()
	return s
}
