package cli

import (
	"net/http"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
)

// Whoever follows a tag never sees a version without its signature, and a push whose
// signature fails moves no tag.
func TestPushMovesTagsAfterSigning(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	registry, key, f := packregistry.Start(t), packregistry.NewKey(t), rulefolder.New(t)
	f.Write("a.yaml", rulefolder.Pack("a", "A", "text of a"))
	push := []string{"rules", "push", "--plain-http", "--key", key.Private, "--tag", "stable", f.Dir, registry.Host + "/team/packs:1.0.0"}
	signature := regexp.MustCompile(`^sha256-[0-9a-f]{64}\.sig$`)
	var tagged []string
	var refuse bool
	registry.Instead(func(w http.ResponseWriter, r *http.Request) bool {
		tag := path.Base(r.URL.Path)
		if r.Method != http.MethodPut || path.Base(path.Dir(r.URL.Path)) != "manifests" {
			return false
		}
		if signature.MatchString(tag) {
			tag = "signature"
			if refuse {
				http.Error(w, "no more space", http.StatusInsufficientStorage)
				return true
			}
		}
		tagged = append(tagged, tag)
		return false
	})
	refuse = true
	code, _, errOut := command(t, push...)
	require.Equal(t, 1, code, errOut)
	require.Equal(t, []string{"1.0.0"}, tagged)
	refuse, tagged = false, nil
	code, _, errOut = command(t, push...)
	require.Zero(t, code, errOut)
	require.Equal(t, []string{"1.0.0", "signature", "1.0.0", "stable"}, tagged)
}
