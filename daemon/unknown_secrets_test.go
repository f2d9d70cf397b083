package daemon

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
	"crowsnest/test/plant"
	"crowsnest/unknown/sentinel"
)

// Patterns, examples, objects and proposed rules of unknown failures are made of lines without
// their secrets, though a secret is the only word that could be an object.
func TestUnknownFailuresHideSecrets(t *testing.T) {
	s := newShip(t)
	s.passes = true
	s.start()
	r, rnd := redact.New(nil), rand.New(rand.NewPCG(3, 17))
	var lines []string
	secrets := map[string]string{} // the line of each
	for _, list := range plant.FreshLists {
		for _, k := range list.Kinds(rnd)[:24] {
			line := fmt.Sprintf(`E0302 10:00:00.000000       1 controller.go:316] "Failed to reach the store" err=%q`, k.Text)
			if !k.Leaks(line, r.String(line)) {
				lines = append(lines, line)
				secrets[k.Secret] = line
			}
		}
	}
	require.Greater(t, len(lines), 80)
	for range 8 {
		before := s.d.sentinel.Stats().Lines
		for i, line := range lines {
			s.log(fmt.Sprintf("team-%d/capi-0", i), line)
		}
		s.eventually(func() bool { return s.d.sentinel.Stats().Lines >= before+int64(len(lines)) }, "the lines are read")
		s.clock.Set(5 * time.Minute)
	}
	s.eventually(func() bool { return len(s.am.firing(sentinel.AlertName)) > 0 }, "some are notified")

	failures := s.unknown().Failures
	require.Greater(t, len(failures), 20)
	paths := []string{"/unknown", "/api/v1/unknown", "/metrics", "/", "/api/v1/alerts", "/api/v1/episodes"}
	for _, f := range failures {
		paths = append(paths, "/unknown/"+f.Fingerprint+"/rule")
	}
	hidden := func(where, text string) {
		t.Helper()
		for secret, line := range secrets {
			require.False(t, strings.Contains(text, secret[:10]), "%s shows a secret of %s", where, line)
		}
	}
	for _, path := range paths {
		_, body := s.get(path)
		hidden(path, body)
	}
	s.am.mu.Lock()
	posts, err := json.Marshal(s.am.posts)
	s.am.mu.Unlock()
	require.NoError(t, err)
	hidden("an alert", string(posts))
	s.stop()
	require.NoError(t, filepath.WalkDir(s.dir+"/state", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		hidden(path, string(b))
		return err
	}))
}
