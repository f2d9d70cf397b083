package unpack

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A bomb of overlapping files: each entry of the table has the bytes of the same file.
func TestOverlappingFiles(t *testing.T) {
	one := zipOf(t, file{"a.log", strings.Repeat("line\n", 1000)})
	at := strings.Index(one, zipEntry)
	end := strings.Index(one, "PK\x05\x06")
	table := strings.Repeat(one[at:end], 50)
	foot := []byte(one[end:])
	binary.LittleEndian.PutUint16(foot[8:], 50)
	binary.LittleEndian.PutUint16(foot[10:], 50)
	binary.LittleEndian.PutUint32(foot[12:], uint32(len(table)))
	_, res, err := unpackText(t, "b.zip", one[:at]+table+string(foot), DefaultLimits())
	require.EqualError(t, err, ".: its files overlap, as in a zip bomb; nothing was unpacked")
	require.Zero(t, res.Files)
}

// The table of contents is bounded before it is read.
func TestLargeTableOfContents(t *testing.T) {
	files := make([]file, 4000)
	for i := range files {
		files[i].name = fmt.Sprint(i)
	}
	limits := DefaultLimits()
	limits.Entries = 100
	_, res, err := unpackText(t, "b.zip", zipOf(t, files...), limits)
	require.ErrorContains(t, err, "more than 100 files")
	require.Zero(t, res.Files)
}

func TestNamesAreBounded(t *testing.T) {
	limits := DefaultLimits()
	limits.Names = 100
	_, _, err := unpackText(t, "b.tar", tarOf(t, file{"a.log", "x"}, file{strings.Repeat("n", 99), "x"}, file{"b.log", "x"}), limits)
	require.ErrorContains(t, err, "MiB of names")
	_, _, err = unpackText(t, "b.tar", tarOf(t, file{strings.Repeat("n/", 700) + "x", "x"}), DefaultLimits())
	require.ErrorContains(t, err, "the name has more than 1024 bytes")
	_, res, err := unpackText(t, "b.tar", tarOf(t, file{"../\x1b[2J", "x"}), DefaultLimits())
	require.ErrorContains(t, err, `"../\x1b[2J": the name leads out of the archive`)
	require.Zero(t, res.Files)
}

// Truncation at any place is reported, and what was unpacked are beginnings of the files.
func FuzzTruncated(f *testing.F) {
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte('a' + i*i%26)
	}
	files := []file{{"a.log", "first\n"}, {"b.log", string(noise)}, {"c.log", strings.Repeat("last\n", 500)}}
	t := &testing.T{}
	forms := []string{zipOf(t, files...), packed(t, tarOf(t, files...), gz), packed(t, tarOf(t, files...), xzs), packed(t, tarOf(t, files...), zst)}
	for form := range forms {
		f.Add(form, 100)
		f.Add(form, len(forms[form])/2)
		f.Add(form, len(forms[form])-5)
	}
	f.Fuzz(func(t *testing.T, form, at int) {
		whole := forms[uint(form)%uint(len(forms))]
		text := whole[:uint(at)%uint(len(whole))]
		if len(text) < 40 {
			return // not the form any more
		}
		dir, res, _ := unpackText(t, "x", text, DefaultLimits())
		require.NotEmpty(t, res.Problems)
		for _, got := range content(t, dir) {
			name, text, _ := strings.Cut(got, ": ")
			for _, f := range files {
				if f.name == name {
					require.True(t, strings.HasPrefix(f.text, text))
				}
			}
		}
	})
}
