package inputs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/test/journald"
)

func TestJournals(t *testing.T) {
	dir := t.TempDir()
	w := &journald.Writer{Path: filepath.Join(dir, "system.journal"), File: [16]byte{1}}
	log := func(seq uint64, fields ...string) {
		require.NoError(t, w.Append(journald.Item{Seq: seq, Realtime: 1_795_000_000_000_000 + seq, Fields: fields}, true))
	}
	log(1, "MESSAGE=one", "_SYSTEMD_UNIT=kubelet.service", "_HOSTNAME=n1")
	log(2, "MESSAGE=of the kernel", "SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=kernel", "_HOSTNAME=n1")
	log(3, "MESSAGE=two\nand \"three\"\n", "_SYSTEMD_UNIT=kubelet.service", "_HOSTNAME=n1")
	log(4, "NO_MESSAGE=x", "_SYSTEMD_UNIT=kubelet.service", "_HOSTNAME=n1")
	write(t, dir+"/other.log", "text\n")
	write(t, dir+"/broken.journal", "LPKSHHRH and no more")
	ins, account, err := Collect([]string{dir}, Options{Labels: matcher.Labels{"cluster": "c"}})
	require.ErrorContains(t, err, "broken.journal: it begins like a systemd journal: not a readable journal file: it has only 20 bytes")
	require.Empty(t, account.Skipped())
	got := map[string]string{}
	for _, in := range ins[1:] {
		rc, err := in.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		got[fmt.Sprint(filepath.Base(in.Name), " ", in.StreamLabels())] = string(text)
	}
	require.Equal(t, map[string]string{
		"system.journal[kubelet.service] map[cluster:c identifier: job:systemd-journal node:n1 transport: unit:kubelet.service]": `{"log":"one\n","stream":"stdout","time":"2026-11-18T11:06:40.000001Z"}
{"log":"two\nand \"three\"\n","stream":"stdout","time":"2026-11-18T11:06:40.000003Z"}
`,
		"system.journal[kernel] map[cluster:c identifier:kernel job:systemd-journal node:n1 transport:kernel unit:]": `{"log":"of the kernel\n","stream":"stdout","time":"2026-11-18T11:06:40.000002Z"}
`,
	}, got)

	image := w.Image()
	require.NoError(t, os.WriteFile(w.Path, image[:len(image)-100], 0o600))
	_, account, err = Collect([]string{w.Path}, Options{})
	require.NoError(t, err)
	require.Len(t, account.Skipped(), 1)
	require.Contains(t, account.Skipped()[0].Problem, "entries are damaged")

	ins, _, err = Collect([]string{Stdin}, Options{Stdin: bytes.NewReader(image)})
	require.NoError(t, err)
	_, err = ins[0].Open()
	require.ErrorContains(t, err, "a systemd journal, not log lines; pass it as a file that is not packed")
}
