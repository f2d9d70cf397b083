package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "save")
	b, note, err := Load(dir)
	require.NoError(t, err)
	require.Empty(t, note)
	require.Nil(t, b)

	for i := range 5 {
		want := bytes.Repeat([]byte{byte(i), '\n'}, i*1000)
		require.NoError(t, Save(dir, want))
		b, note, err = Load(dir)
		require.NoError(t, err)
		require.Empty(t, note)
		require.True(t, bytes.Equal(want, b))
	}
}

// Whatever happens to the newest file, Load uses the previous generation and sets the
// damaged one aside.
func TestDamageCostsOneGeneration(t *testing.T) {
	good := header([]byte("new")) + "new"
	f := func(content, reason string) {
		t.Helper()
		dir := t.TempDir()
		require.NoError(t, Save(dir, []byte("old")))
		require.NoError(t, Save(dir, []byte("new")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, current), []byte(content), 0o600))
		b, note, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, "old", string(b))
		require.Contains(t, note, reason)
		require.Contains(t, note, "previous generation")
		require.FileExists(t, filepath.Join(dir, "state.bad-1"))
		require.NoFileExists(t, filepath.Join(dir, current))
		// Saving still works.
		require.NoError(t, Save(dir, []byte("next")))
		b, note, err = Load(dir)
		require.NoError(t, err)
		require.Empty(t, note)
		require.Equal(t, "next", string(b))
	}
	f("", "no header")
	f("\n", "no header")
	f("\x00\x00\x00\x00", "no header")
	f(strings.Repeat("\x00", 4096), "no header")
	f("{}", "no header")
	f("{}\n{}", "no header")
	f(good[:len(good)-1], "but the header states")
	f(good+"x", "but the header states")
	f(good[:20], "no header")
	f(strings.Replace(good, "new", "nev", 1), "checksum")
	f(strings.Replace(good, " 1 ", " 2 ", 1), "newer than 1")
	f(strings.Replace(good, " 1 ", " 999999999999999999999 ", 1), "no version")
	f(strings.Replace(good, " 1 ", " -1 ", 1), "no version")
	f(strings.Replace(good, " 1 3 ", " 1 ", 1), "no header")
	f("crowsnest-state 2 a newer header of another form\nnew", "newer than 1")
	f(magic, "no header")
	f(magic+"\n", "no header")
	f(magic+" \n", "no version")
	f(magic+" 1 99999999999999999999 x\nnew", "but the header states")
	f(strings.ToUpper(good), "no header")
	f(strings.ReplaceAll(good, "\n", "\r\n"), "checksum")
}

func TestBothGenerationsDamaged(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 * maxBad {
		require.NoError(t, os.WriteFile(filepath.Join(dir, current), fmt.Appendf(nil, "bad %d", i), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, previousName(current)), nil, 0o600))
		b, note, err := Load(dir)
		require.NoError(t, err)
		require.Nil(t, b)
		require.Contains(t, note, "state was damaged")
		require.Contains(t, note, "state.prev was damaged")
	}
	kept, err := filepath.Glob(filepath.Join(dir, "*.bad-*"))
	require.NoError(t, err)
	require.Len(t, kept, 2*maxBad) // they do not fill the disk
}

// After a crash at any step of Save, Load finds a generation.
func TestCrashWithinSave(t *testing.T) {
	f := func(want string, files map[string]string) {
		t.Helper()
		dir := t.TempDir()
		for name, payload := range files {
			content := header([]byte(payload)) + payload
			if payload == "half" {
				content = content[:len(content)-2]
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		b, note, err := Load(dir)
		require.NoError(t, err)
		require.Empty(t, note)
		require.Equal(t, want, string(b))
		require.NoError(t, Save(dir, []byte("next")))
	}
	f("1", map[string]string{current: "1", previousName(current): "0", temporaryName(current): "half"})
	f("2", map[string]string{current: "1", previousName(current): "0", temporaryName(current): "2"}) // killed while the disk was slow
	f("2", map[string]string{previousName(current): "1", temporaryName(current): "2"})
	f("1", map[string]string{previousName(current): "1", temporaryName(current): "half"})
	f("2", map[string]string{current: "2", previousName(current): "1"})
	f("2", map[string]string{temporaryName(current): "2"})
	f("", map[string]string{temporaryName(current): "half"})
}

func TestOddThingsInTheWay(t *testing.T) {
	f := func(plant func(path string)) {
		t.Helper()
		dir := t.TempDir()
		for _, name := range []string{current, previousName(current), temporaryName(current)} {
			plant(filepath.Join(dir, name))
		}
		b, _, err := Load(dir)
		require.NoError(t, err)
		require.Nil(t, b)
		require.NoError(t, Save(dir, []byte("x")))
		b, _, err = Load(dir)
		require.NoError(t, err)
		require.Equal(t, "x", string(b))
	}
	f(func(path string) { require.NoError(t, os.Mkdir(path, 0o700)) })
	f(func(path string) { require.NoError(t, os.MkdirAll(path+"/full", 0o700)) })
	f(func(path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) })
	f(func(path string) { require.NoError(t, os.Symlink("/nowhere", path)) })
	f(func(path string) {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, 1<<40)) // sparse
	})
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Error(t, Save(file, []byte("x")))
	_, _, err := Load(file)
	require.Error(t, err)
	_, err = Lock(context.Background(), file)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrLocked)
	require.Error(t, Save(t.TempDir(), make([]byte, maxSize+1)))
}

// A disk that refuses writes does not affect what was saved before. The file size limit
// applies to a whole process, so the test uses a separate one: the test runner writes
// files too.
func TestFullDisk(t *testing.T) {
	const env = "CROWSNEST_TEST_FULL_DISK"
	if dir := os.Getenv(env); dir != "" {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1000}))
		require.ErrorIs(t, Save(dir, make([]byte, 10000)), syscall.EFBIG)
		return
	}
	dir := t.TempDir()
	require.NoError(t, Save(dir, []byte("old")))
	full := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	full.Env = append(os.Environ(), env+"="+dir)
	out, err := full.CombinedOutput()
	require.NoError(t, err, "%s", out)
	b, note, err := Load(dir)
	require.NoError(t, err)
	require.Empty(t, note)
	require.Equal(t, "old", string(b))
	require.NoError(t, Save(dir, []byte("new")))
}

func TestVanishedDirectoryComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(dir, []byte("1")))
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, Save(dir, []byte("2")))
	b, _, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, "2", string(b))
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	held, err := Lock(context.Background(), dir)
	require.NoError(t, err)

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Lock(ended, dir)
	require.ErrorIs(t, err, ErrLocked)

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		got := make(chan error, 1)
		go func() {
			h, err := Lock(ctx, dir)
			if err == nil {
				err = h.Release()
			}
			got <- err
		}()
		synctest.Wait() // until it waits for the lock
		require.NoError(t, held.Release())
		require.NoError(t, <-got)
	})
}

// The kernel releases the lock of a killed process.
func TestLockOfAKilledProcess(t *testing.T) {
	if dir := os.Getenv("STATE_TEST_LOCK"); dir != "" {
		_, err := Lock(context.Background(), dir)
		fmt.Println("locked", err)
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockOfAKilledProcess$")
	cmd.Env = append(os.Environ(), "STATE_TEST_LOCK="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, len("locked <nil>"))
	_, err = out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "locked <nil>", string(line))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Lock(ended, dir)
	require.ErrorIs(t, err, ErrLocked)

	require.NoError(t, cmd.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &exit))
	h, err := Lock(ended, dir)
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

// Load accepts any content of both files, and returns only what was saved.
func FuzzLoad(f *testing.F) {
	good := []byte(header([]byte("payload")) + "payload")
	f.Add(good, good)
	f.Add(good[:10], good)
	f.Add([]byte{}, []byte{})
	f.Add([]byte("\n"), []byte(magic+" 1 0 \n"))
	f.Add(bytes.ReplaceAll(good, []byte("1"), []byte("2")), good[1:])
	f.Fuzz(func(t *testing.T, cur, prev []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, current), cur, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, previousName(current)), prev, 0o600))
		b, _, err := Load(dir)
		require.NoError(t, err)
		if b != nil {
			whole := append([]byte(header(b)), b...)
			require.True(t, bytes.Equal(whole, cur) || bytes.Equal(whole, prev))
		}
		again, note, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, b, again)
		require.Empty(t, note)
	})
}

// FuzzDamage: Load never accepts a truncated state file or one with flipped bits. It
// uses the previous generation, and the file set aside does not prevent the next
// start.
func FuzzDamage(f *testing.F) {
	f.Add([]byte("payload of the newer one"), uint32(3), uint8(1), uint32(0), false)
	f.Add([]byte("payload"), uint32(0), uint8(0x80), uint32(0), true)
	f.Add([]byte("x"), uint32(0), uint8(0), uint32(1), true)
	f.Add([]byte(""), uint32(9), uint8(0x20), uint32(0), false)
	f.Add([]byte("payload"), uint32(20), uint8(0x10), uint32(3), true)
	f.Fuzz(func(t *testing.T, payload []byte, at uint32, flip uint8, cut uint32, both bool) {
		dir := t.TempDir()
		older := []byte("payload of the older one")
		require.NoError(t, Save(dir, older))
		require.NoError(t, Save(dir, payload))
		damage := func(name string) bool {
			b, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			was := bytes.Clone(b)
			b = b[:len(b)-int(cut)%(len(b)+1)]
			if len(b) > 0 {
				b[int(at)%len(b)] ^= flip
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
			return !bytes.Equal(was, b)
		}
		damaged := damage(current)
		olderToo := both && damage(previousName(current))
		got, _, err := Load(dir)
		require.NoError(t, err)
		switch {
		case !damaged:
			require.Equal(t, string(payload), string(got))
		case !olderToo:
			require.Equal(t, string(older), string(got))
		default:
			require.Nil(t, got)
		}
		require.NoError(t, Save(dir, payload))
		got, note, err := Load(dir)
		require.NoError(t, err)
		require.Empty(t, note)
		require.Equal(t, string(payload), string(got))
	})
}
