package test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// floors maps a package to its floor, by its path or the first element of the
// path. Imports go down only, and packages of one floor do not know each other.
var floors = map[string]int{
	"internal/literals": -1, "internal/metric": -1, "internal/pause": -1, "internal/text": -1, "internal/times": -1,
	"internal/strictyaml": 0, "redact": 0, "rules": 0,
	"matcher": 1, "internal/httpconfig": 1, "internal/httpserve": 1, "internal/kube": 1,
	"agent/wire": 2, "episodes": 2, "episodes/history": 2, "web/runbook": 2,
	"agent/client": 3, "agent/server": 3, "sources": 3, "sinks": 3, "web": 3, "replay": 3, "unknown/discover": 3, "daemon/state": 3,
	"daemon/component": 4, "unknown/sentinel": 4, "daemon/lead": 4, "daemon/configmaps": 4, "daemon/casefile": 5, "daemon/config": 5, "daemon/monitor": 5, "daemon/inforce": 5, "daemon/loader": 6, "daemon": 8,
	"lab": 9, "cli": 10, "cmd": 11, "deploy": 11,
	"internal/blocks": -1, "internal/wholelines": -1, "internal/quota": -1, "daemon/state/plainfile": -1,
	"internal/codec": -2, "internal/lazyre": -2,
}

// exceptions are imports within a floor that are part of the design.
var exceptions = map[string][]string{
	"rules": {"internal/strictyaml"},
	// The ends of the connection between an agent and its aggregator are a sink and a source.
	"agent/client": {"sinks"}, "agent/server": {"sources"},
	// A kind of sink decodes its own configuration; the contract above it does not.
}

// libraries that only one place may import.
var confined = map[string]string{
	"gopkg.in/yaml.v3":                           "internal/strictyaml",
	"github.com/spf13/cobra":                     "cli",
	"github.com/prometheus/client_golang":        "internal/metric web daemon",
	"github.com/prometheus/alertmanager/api":     "sinks/alertmanager",
	"github.com/prometheus/exporter-toolkit/web": "internal/httpserve web",
	"github.com/grafana/loki-client-go":          "sinks/loki",
	"github.com/grafana/loki/pkg/push":           "sinks/loki",
	"k8s.io":                                     "internal/kube sources/kubernetes",
	"github.com/rs/zerolog":                      "cli daemon sinks web",
	"github.com/yuin/goldmark":                   "web",
	"github.com/modelcontextprotocol/go-sdk":     "cli",
	"github.com/google/jsonschema-go":            "cli",
}

// module begins the import path of each of our packages.
var module = strings.TrimSuffix(reflect.TypeFor[rules.Rule]().PkgPath(), "rules")

// connected lists the internal packages that open connections.
var connected = []string{"internal/httpconfig", "internal/httpserve", "internal/kube"}

// impure lists the packages that the floors below the edges must not use.
var impure = []string{"os", "net", "net/http", "log", "log/slog", "math/rand"}

// imported is one import of a file that is not a test.
type imported struct{ file, from, path string }

func TestImportsGoDown(t *testing.T) {
	all := imports(t)
	require.NotEmpty(t, all)
	for _, i := range all {
		to, ours := strings.CutPrefix(i.path, module)
		if !ours {
			checkConfined(t, i)
			continue
		}
		from, target := room(i.from), room(to)
		floor, known := floors[from]
		require.True(t, known || from == ".", "%s: give %s a floor in this test", i.file, from)

		require.NotEqual(t, "test", target, "%s imports %s: what ships needs nothing of test", i.file, to)
		if from == target {
			checkSiblings(t, i, to)
			continue
		}
		require.False(t, target == "lab" && from != "cli", "%s imports %s: the lab is for the commands", i.file, to)
		require.False(t, target == "unknown/discover" && from != "cli" && from != "unknown/sentinel", "%s imports %s: only the sentinel and the commands look for patterns", i.file, to)
		below := floors[target] < floor
		for _, e := range exceptions[from] {
			below = below || target == e
		}
		require.True(t, below, "%s (floor %d) imports %s (floor %d): imports go down only", i.file, floor, to, floors[target])
	}
}

// The table of packages in ARCHITECTURE.md has their floors.
func TestFloorsInArchitecture(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| ?(\\d*) \\| (`.*?`) \\| ").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	floor := 0
	for _, row := range rows {
		if row[1] != "" {
			floor, err = strconv.Atoi(row[1])
			require.NoError(t, err)
		}
		for _, name := range strings.Split(row[2], ", ") {
			name = strings.TrimSuffix(strings.Trim(name, "`"), "/*")
			require.Contains(t, floors, room(name))
			require.Equal(t, floors[room(name)], floor, name)
		}
	}
}

// checkSiblings forbids imports between kinds of sources and between kinds of
// sinks.
func checkSiblings(t *testing.T, i imported, to string) {
	t.Helper()
	if first(i.from) != "sources" && first(i.from) != "sinks" {
		return
	}
	inner := to == first(to) || strings.HasPrefix(to, first(to)+"/internal/") || strings.HasPrefix(to, i.from)
	require.True(t, inner, "%s imports %s: siblings do not know each other", i.file, to)
}

func checkConfined(t *testing.T, i imported) {
	t.Helper()
	for library, places := range confined {
		if i.path != library && !strings.HasPrefix(i.path, library+"/") {
			continue
		}
		ok := false
		for _, place := range strings.Fields(places) {
			ok = ok || i.from == place || strings.HasPrefix(i.from, place+"/")
		}
		require.True(t, ok, "%s imports %s, which belongs to %s", i.file, i.path, places)
	}
}

// The floors that conclude have no clock, log or files: they may use the types
// of package time, but not its clock.
func TestInnerFloorsArePure(t *testing.T) {
	for _, i := range imports(t) {
		if slices.Contains(connected, i.from) {
			continue
		}
		switch head := first(i.from); {
		case head == "internal", head == "matcher", i.from == "agent/wire", head == "episodes", head == "redact":
			for _, p := range impure {
				require.NotEqual(t, p, i.path, "%s imports %s", i.file, p)
			}
		}
	}
}

// room returns the part of a path that has a floor.
func room(p string) string {
	if _, own := floors[p]; own {
		return p
	}
	return first(p)
}

func first(p string) string {
	head, _, _ := strings.Cut(p, "/")
	return head
}

func imports(t *testing.T) []imported {
	t.Helper()
	var out []imported
	root := ".."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || rel == "test" || rel == "tools" || rel == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			out = append(out, imported{file: rel, from: path.Dir(rel), path: p})
		}
		return nil
	})
	require.NoError(t, err)
	return out
}
