package servers

import (
	"path/filepath"
	"strconv"
	"testing"

	"crowsnest/test/child"
)

// VictoriaLogs starts a VictoriaLogs with additional flags. It accepts Loki's requests to push below
// /insert.
func VictoriaLogs(t testing.TB, args ...string) *Server {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	s := &Server{
		Name: "victorialogs", URL: "http://" + child.Address(port), Dir: dir, t: t, bin: Program(t, "victoria-logs"), ready: "/health",
		args: append([]string{"-storageDataPath=" + filepath.Join(dir, "data"), "-httpListenAddr=127.0.0.1:" + strconv.Itoa(port)}, args...),
	}
	s.start()
	return s
}
