package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
	"crowsnest/test/child"
	"crowsnest/test/kubesim"
)

const (
	smallPack   = 64 << 10  // bytes of a pack that is loaded together with others
	packsMemory = 192 << 10 // KiB of the daemon that loads them
)

// checked runs `check rules` and returns its output and exit code.
func checked(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var b bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"check", "rules"}, args...)...)
	cmd.Stdout, cmd.Stderr = &b, &b
	p, err := child.Start(cmd)
	require.NoError(t, err)
	_ = p.Wait() // the exit code shows it
	require.NotContains(t, b.String(), "goroutine ", args)
	return b.String(), cmd.ProcessState.ExitCode()
}

// TestHostileFiles checks paths that are not files with a pack: the error names
// the path and the fix, and nothing waits for a pipe or reads a device.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	must(os.Mkdir(at("empty"), 0o700))
	must(os.WriteFile(at("empty.yaml"), nil, 0o600))
	must(os.MkdirAll(at("folder.yaml/pack.yaml"), 0o700))
	must(os.MkdirAll(at("deep/"+strings.Repeat("d/", 20)), 0o700))
	must(syscall.Mkfifo(at("pipe.yaml"), 0o600))
	must(os.Mkdir(at("pipes"), 0o700))
	must(syscall.Mkfifo(at("pipes/pipe.yaml"), 0o600))
	must(os.Symlink("itself.yaml", at("itself.yaml")))
	must(os.Mkdir(at("loop"), 0o700))
	must(os.Symlink("..", at("loop/up")))
	must(os.Symlink("/dev/zero", at("zero.yaml")))
	must(os.Symlink("/nowhere", at("nowhere.yaml")))
	must(os.WriteFile(at("sparse.yaml"), nil, 0o600))
	must(os.Truncate(at("sparse.yaml"), 8<<30))
	must(os.WriteFile(at("secret.yaml"), []byte(pack("Secret", nil)), 0))
	must(os.Mkdir(at("large"), 0o700))
	for i := range 9 {
		must(os.WriteFile(at(fmt.Sprintf("large/%d.yaml", i)), bytes.Repeat([]byte("# padding\n"), 100_000), 0o600))
	}
	for _, name := range []string{"empty", "empty.yaml", "folder.yaml", "deep", "pipe.yaml", "pipes", "itself.yaml", "zero.yaml", "nowhere.yaml", "sparse.yaml", "secret.yaml", "large", "missing"} {
		if name == "secret.yaml" && os.Geteuid() == 0 {
			continue // root may read it
		}
		out, code := checked(t, at(name))
		require.Equal(t, 1, code, out)
		require.Contains(t, out, at(name), name)
		require.Contains(t, out, "fix: ", name)
	}
}

// group is a pack as the API lists it.
type group struct {
	Name, File, Broken string
	Rules              []struct{ Name, Health, GivenUp string }
}

func (d *victim) groups() (out []group) {
	d.t.Helper()
	var answer struct{ Data struct{ Groups []group } }
	require.NoError(d.t, json.Unmarshal([]byte(d.page("/api/v1/rules")), &answer))
	return answer.Data.Groups
}

// silent returns the files for which the API lists neither the rules nor why
// they were refused, and counts the packs in force.
func (d *victim) silent(files []string) (out []string, live int) {
	d.t.Helper()
	all := d.groups()
	metrics, err := d.Metrics(d.t.Context())
	require.NoError(d.t, err)
	for _, file := range files {
		said := false
		for _, g := range all {
			switch {
			case g.File != file:
			case g.Broken == "":
				live++
				said = len(g.Rules) > 0
				for _, r := range g.Rules {
					given := metrics[fmt.Sprintf(`crowsnest_rule_inactive{reason="given_up",rule=%q}`, r.Name)] > 0
					said = said && r.Health != "" && given == (r.GivenUp != "")
				}
			default:
				said = metrics[fmt.Sprintf("crowsnest_pack_broken{pack=%q}", g.Name)] > 0
			}
		}
		if !said {
			out = append(out, file)
		}
	}
	return out, live
}

// TestHostilePacksRun makes a daemon load every hostile pack and read lines
// that match their rules: it continues to work, also over a restart, and each
// pack is in force or reported.
func TestHostilePacksRun(t *testing.T) {
	v := newVictim(t, false, map[string]string{"good.yaml": pack("Good", nil)})
	folder := filepath.Join(v.Dir, "packs")
	require.NoError(t, os.Mkdir(folder, 0o700))
	config, err := os.ReadFile(filepath.Join(v.Dir, "crowsnest.yml"))
	require.NoError(t, err)
	require.NoError(t, v.Configure(strings.Replace(string(config), filepath.Join(v.Dir, "good.yaml"), filepath.Join(v.Dir, "good.yaml")+", "+folder, 1)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "first.yaml"), []byte(pack("First", nil)), 0o600))
	v.Flags = append(v.Flags, "--web.enable-lifecycle")
	v.start()
	pid := v.Process().PID()

	var files []string
	var accepted []*rules.Rule
	for i, p := range allPacks(t) {
		if len(p.text) > smallPack || strings.Contains(p.text, "overrides") {
			continue // these would change or displace the others
		}
		if !long && i%2 != 0 {
			continue
		}
		file := filepath.Join(folder, fmt.Sprintf("%03d.yaml", i))
		require.NoError(t, os.WriteFile(file, []byte(p.text), 0o600))
		files = append(files, file)
		doc, _ := rules.Parse(rules.File{Name: file, Data: []byte(p.text)})
		if set, _ := rules.Build([]*rules.Document{doc}, rules.Options{}); set != nil {
			accepted = append(accepted, set.Rules...)
		}
	}
	out, code := checked(t, folder)
	require.Equal(t, 1, code)
	require.NotContains(t, out, "[internal]")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = v.Reload(ctx)
	require.ErrorContains(t, err, "was refused")
	silent, live := v.silent(files)
	require.Empty(t, silent)
	require.Greater(t, live, 20)

	lines := v.hit(accepted)
	v.hasRead(lines)
	metrics, err := v.Metrics(t.Context())
	require.NoError(t, err)
	matched := 0
	for series, n := range metrics {
		if strings.HasPrefix(series, "crowsnest_rule_matches_total{") && n > 0 {
			matched++
		}
	}
	require.Greater(t, matched, 10)
	require.Equal(t, pid, v.Process().PID())
	require.True(t, v.Process().Running(), v.LogEnd())
	t.Logf("%d packs, %d in force, %d rules matched lines; VmHWM %.1f MiB", len(files), live, matched, float64(v.Process().Memory("VmHWM"))/1024)
	require.LessOrEqual(t, v.Process().Memory("VmHWM"), int64(packsMemory))

	v.stop()
	v.start()
	silent, again := v.silent(files)
	require.Empty(t, silent)
	require.Equal(t, live, again)
}

// hit writes lines that rules match, and returns how many.
func (d *victim) hit(all []*rules.Rule) (lines int) {
	d.t.Helper()
	hostile := d.container("kube-system", "hostile-0", "c", 0)
	logs := pods{}
	for _, r := range all {
		if id, ok := strings.CutPrefix(r.Alert, "Hostile"); ok {
			hostile.Write("stdout", fmt.Sprintf("boom %s key=\x1b[31m`$(id)`\xff%s", id, strings.Repeat("k", 500)))
			lines++
			continue
		}
		for i := range min(2, len(r.Tests)) {
			for _, in := range r.Tests[i].Input[:min(2, len(r.Tests[i].Input))] {
				if in.Text != "" && !strings.ContainsAny(in.Text, "\n\x00") {
					s := r.Tests[i].Stream
					logs.write(d, place{"kube-system", orName(s["pod"], "p-0"), orName(s["container"], "manager")}, 0, in.Text)
					lines++
				}
			}
		}
	}
	for _, c := range append([]*kubesim.Container{hostile}, mapped(logs)...) {
		require.NoError(d.t, c.Err)
	}
	return lines
}

func mapped(p pods) (out []*kubesim.Container) {
	for _, c := range p {
		out = append(out, c)
	}
	return out
}
