package discover

import (
	"hash/fnv"
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

// corpus holds real lines, with an index that classifies each of them.
const corpus = "../../../shared/corpus"

// Thresholds.
const (
	topPatterns = 60
	leastNamed  = 0.86
	// Half of the logs contain two thirds of the signatures.
	topOfHalf   = 45
	leastOfHalf = 0.82
)

// excerpts are the logs of the corpus and the index of their lines.
type excerpts struct {
	files []string
	// lines maps each line of each file to its signatures.
	lines map[string]map[int64][]string
	// serious are the signatures that may deserve an alert.
	serious map[string]bool
}

// marks reads the index.
func marks(t *testing.T) excerpts {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(corpus, "INDEX.tsv"))
	if err != nil {
		t.Skip("no corpus beside the repository")
	}
	// Suffixes mark harmless occurrences of the same text, continuations and
	// other lines.
	signature := regexp.MustCompile(`^S\d\d$`)
	out := excerpts{lines: map[string]map[int64][]string{}, serious: map[string]bool{}}
	for row := range strings.Lines(string(index)) {
		f := strings.Split(row, "\t")
		of := map[int64][]string{}
		for part := range strings.SplitSeq(f[1], ";") {
			label, numbers, _ := strings.Cut(part, ":")
			if !signature.MatchString(label) {
				continue
			}
			if !strings.HasPrefix(f[5], "benign") {
				out.serious[label] = true
			}
			for n := range strings.SplitSeq(numbers, ",") {
				k, err := strconv.ParseInt(n, 10, 64)
				require.NoError(t, err)
				of[k] = append(of[k], label)
			}
		}
		out.lines[filepath.Join(corpus, f[0])] = of
	}
	out.files, err = filepath.Glob(filepath.Join(corpus, "real", "*", "*.log"))
	require.NoError(t, err)
	return out
}

// half returns the files of one half, by the hash of their names.
func (e excerpts) half(odd bool) excerpts {
	e.files = slices.DeleteFunc(slices.Clone(e.files), func(path string) bool {
		h := fnv.New32a()
		_, _ = h.Write([]byte(filepath.Base(path)))
		return h.Sum32()%2 == 1 != odd
	})
	return e
}

// ranks returns, for each signature of the files, the number of the first pattern
// that names it, 0 for none. A pattern names a signature if at least half the lines
// of it, or of one of its variants, carry the signature.
func (e excerpts) ranks(t *testing.T) map[string]int {
	t.Helper()
	f, err := New(nil, Options{Lenient: true, Now: now, Redactor: redact.New(nil)})
	require.NoError(t, err)
	carried := map[uint64]map[string]int64{}
	counts := map[uint64]int64{}
	f.onCount = func(key uint64, input string, line int64) {
		if carried[key] == nil {
			carried[key] = map[string]int64{}
		}
		counts[key]++
		for _, label := range e.lines[input][line] {
			carried[key][label]++
		}
	}
	out := map[string]int{}
	for _, path := range e.files {
		require.NoError(t, f.Read(Input{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}))
		for _, labels := range e.lines[path] {
			for _, label := range labels {
				out[label] = 0
			}
		}
	}
	for i, g := range f.rank() {
		for _, p := range g.members[:min(len(g.members), 3)] {
			lines, carry := int64(0), map[string]int64{}
			for key, of := range f.patterns.byKey {
				if of != p {
					continue
				}
				lines += counts[key]
				for label, n := range carried[key] {
					carry[label] += n
				}
			}
			for label, n := range carry {
				if 2*n >= lines && out[label] == 0 {
					out[label] = i + 1
				}
			}
		}
	}
	return out
}

// share counts the signatures among the first patterns, and returns the ones that
// are missing.
func (e excerpts) share(ranks map[string]int, top int) (named int, missed []string) {
	for _, label := range slices.Sorted(maps.Keys(ranks)) {
		rank := ranks[label]
		if rank > 0 && rank <= top {
			named++
			continue
		}
		text := label + " (no pattern)"
		if rank > 0 {
			text = label + " (pattern " + strconv.Itoa(rank) + ")"
		}
		if !e.serious[label] {
			text += " benign"
		}
		missed = append(missed, text)
	}
	return named, missed
}

// Without any rule, the first 60 patterns name most of the failures in real logs.
func TestCorpus(t *testing.T) {
	e := marks(t)
	ranks := e.ranks(t)
	named, missed := e.share(ranks, topPatterns)
	t.Logf("%d of %d signatures are among the first %d patterns; missed: %s", named, len(ranks), topPatterns, strings.Join(missed, ", "))
	require.GreaterOrEqual(t, float64(named), leastNamed*float64(len(ranks)), "missed: %s", strings.Join(missed, ", "))
}

// Both halves of the logs, split by the hash of their names, do about as well: what
// was tuned on the even one holds for the odd one.
func TestCorpusHalves(t *testing.T) {
	e := marks(t)
	for _, odd := range []bool{false, true} {
		half := e.half(odd)
		ranks := half.ranks(t)
		named, missed := half.share(ranks, topOfHalf)
		t.Logf("odd %v: %d of %d signatures of %d files are among the first %d patterns; missed: %s",
			odd, named, len(ranks), len(half.files), topOfHalf, strings.Join(missed, ", "))
		require.GreaterOrEqual(t, float64(named), leastOfHalf*float64(len(ranks)))
	}
}
