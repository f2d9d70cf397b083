package files

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// pipe stores the blocks of each file.
type pipe struct {
	sources.Pipeline // nil: for unused methods

	mu     sync.Mutex
	blocks map[string]string
	labels map[string]matcher.Labels
}

func (p *pipe) Scan(s *matcher.Stream, block []byte, commit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := filepath.Base(s.Labels()["filename"])
	p.blocks[name] += string(block)
	p.labels[name] = s.Labels()
	commit()
}
func (p *pipe) Match(*matcher.Stream, matcher.Record, func())                {}
func (p *pipe) Flush(*matcher.Stream)                                        {}
func (p *pipe) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}

func TestReads(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("one.log", "1\n")
	write("other.txt", "no\n")
	write("a/x.log", "ax\n")
	write("a/x.log.1", "ax1\n")
	write("b/x.log.1", "bx1\n")
	write("b/c/x.log", "too deep\n")
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{
			NoWatch: true, FromStart: true,
			Paths: []Path{
				{Path: filepath.Join(root, "one.log"), Labels: map[string]string{"job": "one"}},
				{Path: filepath.Join(root, "*.log"), Labels: map[string]string{"job": "all"}},
				{Path: filepath.Join(root, "*/x.log"), Labels: map[string]string{"job": "x"}},
			},
		})
		p := &pipe{blocks: map[string]string{}, labels: map[string]matcher.Labels{}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, p) }()
		<-time.After(2 * time.Second)
		write("two.log", "2\n") // found later
		<-time.After(7 * time.Second)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, "1\n", p.blocks["one.log"])
		require.Equal(t, "one", p.labels["one.log"]["job"])
		require.Equal(t, "2\n", p.blocks["two.log"])
		require.Equal(t, "all", p.labels["two.log"]["job"])
		require.Contains(t, []string{"ax1\nax\nbx1\n", "bx1\nax1\nax\n", "ax1\nbx1\nax\n"}, p.blocks["x.log"])
		require.Len(t, p.blocks, 3)
		require.Len(t, s.Status().Streams, 4)
	})
}

// A folder that cannot be listed hides no other.
func TestFolderOfManyFails(t *testing.T) {
	f := finding{root: "/logs", rest: []string{"*", "x.log"}, path: Path{Labels: map[string]string{"job": "x"}}, taken: map[string]int{}}
	found, err := f.findStreams(func(dir string) ([]logdir.Entry, error) {
		switch dir {
		case ".":
			return []logdir.Entry{{Name: "a", Dir: true}, {Name: "b", Dir: true}, {Name: "gone", Dir: true}}, nil
		case "a":
			return []logdir.Entry{{Name: "x.log"}}, nil
		case "b":
			return nil, os.ErrPermission
		}
		return nil, os.ErrNotExist
	})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, "/logs/a/x.log", found[0].Key)
	require.Equal(t, "/logs/b", found[1].Key)
	require.ErrorIs(t, found[1].Failed, os.ErrPermission)
	require.Equal(t, matcher.Labels{"job": "x"}, found[1].Labels())
	_, err = f.findStreams(func(string) ([]logdir.Entry, error) { return nil, os.ErrPermission })
	require.ErrorIs(t, err, os.ErrPermission)
}

func TestServes(t *testing.T) {
	s := New(Config{Paths: []Path{
		{Path: "/a", Labels: map[string]string{"job": "a"}},
		{Path: "/b", Labels: map[string]string{"job": "b", "env": "prod"}},
	}})
	f := func(text string, want bool) {
		t.Helper()
		sel, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(sel), text)
	}
	f(`{job="a"}`, true)
	f(`{job="a", env="prod"}`, false)
	f(`{job="b", env="prod", filename=~".*x"}`, true)
	f(`{namespace="x"}`, false)
	f(`{job=~".+", namespace=""}`, true)
}

func TestValidate(t *testing.T) {
	f := func(p Path, want string) {
		t.Helper()
		err := Config{Paths: []Path{p}}.Validate()
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	f(Path{Path: "/var/log/*.log", Labels: map[string]string{"job": "x"}}, "")
	f(Path{Path: "var/log"}, "absolute")
	f(Path{Path: ""}, "absolute")
	f(Path{Path: "/x/[a"}, "glob")
	f(Path{Path: "/x/**/a"}, "**")
	f(Path{Path: "/x/"}, "directory")
	f(Path{Path: "/x", Labels: map[string]string{"filename": "x"}}, "filename")
	f(Path{Path: "/x", Labels: map[string]string{"1": "x"}}, `"1"`)
	require.ErrorContains(t, Config{}.Validate(), "empty")
}

func TestSplit(t *testing.T) {
	f := func(path, root string, rest ...string) {
		t.Helper()
		r, got := splitAtGlob(path)
		require.Equal(t, root, r)
		require.True(t, slices.Equal(rest, got), got)
	}
	f("/var/log/syslog", "/var/log", "syslog")
	f("/var/*/x.log", "/var", "*", "x.log")
	f("/x", "/", "x")
	f("/*/x", "/", "*", "x")
}
