package discover

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
)

// corpus is where real lines are, with an index of what each of them is.
const corpus = "../../shared/corpus"

// Constants of the bar.
const (
	topPatterns = 60
	leastNamed  = 0.8
)

// marks says which signatures the lines of each file carry, and which signatures
// are never worth more than a look.
func marks(t *testing.T) (lines map[string]map[int64][]string, all, benign map[string]bool) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(corpus, "INDEX.tsv"))
	if err != nil {
		t.Skip("no corpus beside the repository")
	}
	// Suffixes are of the same text where it is harmless, of continuations and of
	// other lines.
	signature := regexp.MustCompile(`^S\d\d$`)
	lines, all, benign = map[string]map[int64][]string{}, map[string]bool{}, map[string]bool{}
	serious := map[string]bool{}
	for row := range strings.Lines(string(index)) {
		f := strings.Split(row, "\t")
		of := map[int64][]string{}
		for part := range strings.SplitSeq(f[1], ";") {
			label, numbers, _ := strings.Cut(part, ":")
			if !signature.MatchString(label) {
				continue
			}
			all[label] = true
			serious[label] = serious[label] || !strings.HasPrefix(f[5], "benign")
			for n := range strings.SplitSeq(numbers, ",") {
				k, err := strconv.ParseInt(n, 10, 64)
				require.NoError(t, err)
				of[k] = append(of[k], label)
			}
		}
		lines[filepath.Join(corpus, f[0])] = of
	}
	for label := range all {
		if !serious[label] {
			benign[label] = true
		}
	}
	return lines, all, benign
}

// Without any rule, of the failures in real logs four in five are named by the
// first 60 patterns: those where at least half of the lines of the pattern, or of
// one that is shown below it, carry the signature.
func TestCorpus(t *testing.T) {
	lines, all, benign := marks(t)
	f, err := New(nil, Options{Lenient: true, Now: now, Redactor: redact.New(nil)})
	require.NoError(t, err)
	carried := map[*pattern]map[string]int64{}
	f.counted = func(p *pattern, input string, line int64) {
		if carried[p] == nil {
			carried[p] = map[string]int64{}
		}
		for _, label := range lines[input][line] {
			carried[p][label]++
		}
	}
	files, err := filepath.Glob(filepath.Join(corpus, "real", "*", "*.log"))
	require.NoError(t, err)
	for _, path := range files {
		require.NoError(t, f.Read(Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}))
	}
	named := map[string]int{}
	for i, g := range f.groups(1).diverse(f.parts) {
		for _, p := range g.members[:min(len(g.members), 3)] {
			for label, n := range carried[p] {
				if 2*n >= p.count && named[label] == 0 {
					named[label] = i + 1
				}
			}
		}
	}
	var missed []string
	counted, found, top := 0, 0, 0
	for _, label := range slices.Sorted(maps.Keys(all)) {
		hit := named[label] > 0 && named[label] <= topPatterns
		if !hit {
			text := label + " (no pattern)"
			if named[label] > 0 {
				text = label + " (pattern " + strconv.Itoa(named[label]) + ")"
			}
			if benign[label] {
				text += " benign"
			}
			missed = append(missed, text)
		} else {
			top++
		}
		if !benign[label] {
			counted++
			if hit {
				found++
			}
		}
	}
	t.Logf("%d of %d signatures are among the first %d patterns, %d of %d of those that are ever worth an alert; missed: %s",
		top, len(all), topPatterns, found, counted, strings.Join(missed, ", "))
	require.GreaterOrEqual(t, float64(found), leastNamed*float64(counted), "missed: %s", strings.Join(missed, ", "))
}
