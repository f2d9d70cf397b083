package mcp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"crowsnest/internal/text"
)

// Bounds of the logs of one call.
const (
	maxLines  = 1 << 20  // bytes of lines in the call
	maxFile   = 16 << 20 // bytes of a file that are read, after decompression
	maxListed = 40
)

// logText is the part of a log that a call reads.
type logText struct {
	name string // name to show, and path that implies labels
	data []byte
	gap  string // the part that was not read; "" if all was
}

// readLog reads a file below one of the folders that the user named. Symbolic links must not
// lead out of the folder: os.Root refuses them, also if they change meanwhile.
func (s *Server) readLog(path string, offset int64) (out logText, err error) {
	if len(s.cfg.LogsDirs) == 0 {
		return out, errors.New("this server reads no files: the user has to start it with --logs-dir FOLDER; or give the lines in lines")
	}
	dir, inside, err := s.folderOf(path)
	if err != nil {
		return out, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return out, fmt.Errorf("open the folder of --logs-dir: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	info, err := root.Stat(inside)
	switch {
	case err != nil:
		return out, fmt.Errorf("read %s: %w; a path must be below %s, and links must not lead out of it", text.Printable(path), cause(err), dir)
	case info.IsDir():
		return out, fmt.Errorf("%s is a folder; name a file in it: %s", text.Printable(path), listed(root, inside))
	case !info.Mode().IsRegular():
		return out, fmt.Errorf("%s is not a regular file", text.Printable(path))
	}
	f, err := root.Open(inside)
	if err != nil {
		return out, fmt.Errorf("read %s: %w", text.Printable(path), cause(err))
	}
	defer f.Close()
	out.name = filepath.Join(dir, inside)
	out.data, out.gap, err = partOf(f, offset)
	if err != nil {
		err = fmt.Errorf("read %s: %w", text.Printable(path), cause(err))
	}
	return out, err
}

// folderOf returns the folder of the user that a path is in, and the path below it. A relative
// path is in the first folder that has such a file.
func (s *Server) folderOf(path string) (dir, inside string, err error) {
	if path = filepath.Clean(path); !filepath.IsAbs(path) {
		if !filepath.IsLocal(path) {
			return "", "", s.outside(path)
		}
		for _, dir := range s.cfg.LogsDirs {
			root, err := os.OpenRoot(dir)
			if err != nil {
				continue
			}
			_, err = root.Lstat(path)
			_ = root.Close()
			if err == nil {
				return dir, path, nil
			}
		}
		return s.cfg.LogsDirs[0], path, nil
	}
	for _, dir := range s.cfg.LogsDirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		if inside, err := filepath.Rel(abs, path); err == nil && filepath.IsLocal(inside) {
			return dir, inside, nil
		}
	}
	return "", "", s.outside(path)
}

func (s *Server) outside(path string) error {
	return fmt.Errorf("%s is outside of the folders that this server may read: %s", text.Printable(path), strings.Join(s.cfg.LogsDirs, ", "))
}

// listed names what a folder contains.
func listed(root *os.Root, dir string) string {
	f, err := root.Open(dir)
	if err != nil {
		return "it cannot be read: " + cause(err).Error()
	}
	defer f.Close()
	entries, err := f.ReadDir(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return "it cannot be read: " + cause(err).Error()
	}
	var names []string
	for _, e := range entries[:min(len(entries), maxListed)] {
		name := text.Printable(e.Name())
		if e.IsDir() {
			name += "/"
		}
		names = append(names, name)
	}
	if len(entries) > maxListed {
		names = append(names, "and more")
	}
	if len(names) == 0 {
		return "it is empty"
	}
	return strings.Join(names, ", ")
}

// partOf reads the lines of a file from an offset on, or with a negative offset its newest
// ones, as far as the bound permits; gap says what was not read.
func partOf(f *os.File, offset int64) (data []byte, gap string, err error) {
	head := make([]byte, 2)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	if bytes.Equal(head[:n], gzipMagic) {
		return gunzip(f)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	size := info.Size()
	from := max(0, size-maxFile)
	if offset >= 0 {
		from = min(offset, size)
	}
	if data, err = io.ReadAll(io.NewSectionReader(f, from, min(size-from, maxFile))); err != nil {
		return nil, "", err
	}
	data, skipped := wholeLines(data, from > 0, from+int64(len(data)) < size)
	begin := from + int64(skipped)
	end := begin + int64(len(data))
	if begin > 0 || end < size {
		gap = fmt.Sprintf("Only the bytes %d to %d of %d of the file were read. Call again with offset for another part: what spans two parts is not seen.", begin, end, size)
	}
	return data, gap, nil
}

// wholeLines returns data without the rest of a line at its beginning and the start of one at
// its end, and the length of that rest.
func wholeLines(data []byte, first, last bool) (whole []byte, skipped int) {
	if first {
		skipped = bytes.IndexByte(data, '\n') + 1
		data = data[skipped:]
	}
	if end := bytes.LastIndexByte(data, '\n') + 1; last && end > 0 {
		data = data[:end]
	}
	return data, skipped
}

var gzipMagic = []byte{0x1f, 0x8b}

func gunzip(f *os.File) (data []byte, gap string, err error) {
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, "", fmt.Errorf("unpack gzip: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(zr, maxFile+1))
	if err != nil {
		gap = "Only the first part of the file can be unpacked: " + err.Error() + "."
	}
	if len(data) > maxFile {
		data, _ = wholeLines(data[:maxFile], false, true)
		gap = fmt.Sprintf("Only the first %d MiB of the unpacked file were read; crowsnest replay reads all of it.", maxFile>>20)
	}
	if bytes.HasPrefix(data, gzipMagic) {
		return nil, "", errors.New("it is packed with gzip twice; unpack it once")
	}
	return data, gap, nil
}

// cause removes the path from an error.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
