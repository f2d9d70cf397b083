package rulefiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func names(files []File) string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	return strings.Join(out, " ")
}

func TestReadFS(t *testing.T) {
	f := &fstest.MapFile{Data: []byte("x")}
	files, err := ReadFS(fstest.MapFS{
		"b.yaml": f, "a.yml": f, "README.md": f, "sub/c.yaml": f, "sub/deep/d.yaml": f, ".hidden.yaml": f,
		"..data/b.yaml": f, "..2024_01_01/b.yaml": f, ".git/x.yaml": f, "yaml": f,
	})
	require.NoError(t, err)
	require.Equal(t, "a.yml b.yaml sub/c.yaml sub/deep/d.yaml", names(files))
}

func TestReadFSLimits(t *testing.T) {
	big := &fstest.MapFile{Data: make([]byte, MaxBytes+100)}
	files, err := ReadFS(fstest.MapFS{"a.yaml": big})
	require.NoError(t, err)
	require.Len(t, files[0].Data, MaxBytes+1)

	fsys := fstest.MapFS{}
	for _, n := range strings.Split("a b c d e f g h i", " ") {
		fsys[n+".yaml"] = &fstest.MapFile{Data: make([]byte, MaxBytes)}
	}
	_, err = ReadFS(fsys)
	require.ErrorContains(t, err, "8 MiB")

	fsys = fstest.MapFS{strings.Repeat("d/", 20) + "a.yaml": big}
	_, err = ReadFS(fsys)
	require.ErrorContains(t, err, "nested")
}

// configMap lays out a folder as the kubelet mounts a ConfigMap.
func configMap(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	version := filepath.Join(dir, "..2024_01_01")
	require.NoError(t, os.MkdirAll(filepath.Join(version, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(version, "a.yaml"), []byte("a"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(version, "sub", "b.yaml"), []byte("b"), 0o644))
	require.NoError(t, os.Symlink("..2024_01_01", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	require.NoError(t, os.Symlink("..data/sub", filepath.Join(dir, "sub")))
	return dir
}

func TestReadConfigMap(t *testing.T) {
	dir := configMap(t)
	files, ps := ReadPaths([]string{dir})
	require.Empty(t, ps)
	require.Equal(t, filepath.Join(dir, "a.yaml")+" "+filepath.Join(dir, "sub", "b.yaml"), names(files))

	files, err := ReadFS(os.DirFS(dir))
	require.NoError(t, err)
	require.Equal(t, "a.yaml sub/b.yaml", names(files))
}

func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte("x"), 0o644))
		return p
	}
	a, odd := write("packs/a.yaml"), write("odd.txt")
	packs := filepath.Join(dir, "packs")
	files, ps := ReadPaths([]string{odd, packs, a, packs + "/"})
	require.Empty(t, ps)
	require.Equal(t, odd+" "+a, names(files), "files named twice are read once")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	require.NoError(t, os.Symlink(dir, filepath.Join(packs, "loop")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "gone.yaml")))
	_, ps = ReadPaths([]string{packs})
	require.Len(t, ps, 1, "a link to a folder above ends")
	files, ps = ReadPaths([]string{filepath.Join(dir, "missing"), filepath.Join(dir, "empty"), dir})
	require.Len(t, ps, 3)
	require.Contains(t, ps[0].Message, "no such file")
	require.Contains(t, ps[1].Message, "no *.yaml")
	require.Contains(t, ps[2].Message, "gone.yaml")
	require.Empty(t, files)
}
