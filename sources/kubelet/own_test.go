package kubelet

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/internal/tail"
)

// A folder without the log of the own pod is an error; links and pods that cannot be
// listed are reported and hide nothing.
func TestFind(t *testing.T) {
	f := func(cfg Config, tree map[string][]logdir.Entry, want []string, refused []string, wantErr error) {
		t.Helper()
		found, err := New(cfg).findStreams(func(dir string) ([]logdir.Entry, error) {
			if tree[dir] == nil {
				return nil, fs.ErrPermission
			}
			return tree[dir], nil
		})
		require.ErrorIs(t, err, wantErr)
		var read, not []string
		for _, s := range found {
			if s.Refused != "" || s.Failed != nil {
				not = append(not, s.Dir)
			} else {
				read = append(read, s.Dir)
			}
		}
		require.Equal(t, want, read)
		require.Equal(t, refused, not)
	}
	dir := func(name string) logdir.Entry { return logdir.Entry{Name: name, Dir: true} }
	link := func(name string) logdir.Entry { return logdir.Entry{Name: name, Link: true} }
	own := Config{OwnPod: sources.OwnPod{SelfNamespace: "mon", SelfPod: "agent-x"}, SelfFolder: "mon_agent-x_u1"}
	tree := map[string][]logdir.Entry{
		".":              {dir("mon_agent-x_u1"), dir("a_b_c"), dir("closed_b_c"), link("d_e_f"), link("else")},
		"mon_agent-x_u1": {dir("crowsnest")},
		"a_b_c":          {dir("one"), link("two"), {Name: "file"}},
	}
	f(own, tree, []string{"a_b_c/one"}, []string{"a_b_c/two", "closed_b_c", "d_e_f"}, nil)
	delete(tree, "closed_b_c")
	tree["."] = tree["."][:2]
	f(own, tree, []string{"a_b_c/one"}, []string{"a_b_c/two"}, nil)
	tree["."][0].Name = "mon_agent-x_u0" // of a pod of the same name, before this one
	f(own, tree, []string{"a_b_c/one"}, []string{"a_b_c/two"}, tail.ErrDoubt)
	f(own, map[string][]logdir.Entry{".": {}}, nil, nil, tail.ErrDoubt)
	own.Foreign = true
	f(own, map[string][]logdir.Entry{".": {}}, nil, nil, nil)
	f(Config{}, map[string][]logdir.Entry{".": {}}, nil, nil, nil)
}
