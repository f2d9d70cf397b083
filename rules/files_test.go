package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// TestErrFiles compares all that is said of every broken file with the .out file
// beside it: the words, the places and the fixes. UPDATE=1 rewrites the files.
func TestErrFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(errPacks, "*.want"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		path := strings.TrimSuffix(file, ".want")
		t.Run(filepath.Base(path), func(t *testing.T) {
			exp := readWant(t, file)
			got := problemsOf(t, path, exp.options).Error() + "\n"
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(path+".out", []byte(got), 0o644))
			}
			want, err := os.ReadFile(path + ".out")
			require.NoError(t, err, "run with UPDATE=1")
			require.Equal(t, string(want), got)
		})
	}
}

// TestOKFiles loads every file of testdata/rules/ok without an error or a
// warning, and every pack of testdata/language without an error.
func TestOKFiles(t *testing.T) {
	f := func(glob string, warnings bool) {
		t.Helper()
		files, err := filepath.Glob(glob)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			doc, problems := rules.Parse(rules.File{Name: filepath.Base(file), Data: data})
			set, more := rules.Build([]*rules.Document{doc}, rules.Options{Version: "0.1.0"})
			all := append(problems, more...)
			require.NotNil(t, set, "%s", all.Error())
			if !warnings {
				require.Empty(t, all, "%s", all.Error())
			}
		}
	}
	f("../testdata/rules/ok/*.yaml", false)
	f("../testdata/language/*.yaml", true)
}
