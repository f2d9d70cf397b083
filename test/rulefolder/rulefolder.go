// Package rulefolder creates folders of small rule packs for tests.
package rulefolder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pack returns a pack with one rule that matches a text, and its test.
func Pack(name, alert, text string) string {
	return `pack: {name: ` + name + `, version: 0.1.0, rules: 1}
rules:
- alert: ` + alert + `
  from: '{container="syncer"}'
  match: "` + text + `"
  by: [namespace]
  severity: warning
  tests:
  - name: fires
    stream: {namespace: a, container: syncer}
    input: [{at: 0s, line: "` + text + `"}]
    expect: [{at: 1s, firing: [{alertname: ` + alert + `}]}]
`
}

// Folder is a temporary folder whose files a test changes.
type Folder struct {
	t *testing.T
	// Dir is its path.
	Dir string
}

// New creates an empty folder that is removed at the end of the test.
func New(t *testing.T) Folder { return Folder{t, t.TempDir()} }

// Write writes a file.
func (f Folder) Write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.Dir, name), []byte(text), 0o644))
}

// Remove removes a file.
func (f Folder) Remove(name string) {
	f.t.Helper()
	require.NoError(f.t, os.Remove(filepath.Join(f.Dir, name)))
}
