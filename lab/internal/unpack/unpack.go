// Package unpack unpacks archives that people collect, such as support bundles, into a folder.
// It supports tar, zip, compression with gzip, xz, zstd and bzip2, and archives inside
// archives.
//
// An archive may be hostile. Nothing is written outside the folder, links and special files are
// not created, and the size, number and depth of the unpacked files are limited. Memory does
// not grow with the archive, except for the table of contents of a zip archive, whose size is
// also limited. An archive inside another is unpacked after the outer one, so that their
// decompressors are not in memory at the same time.
package unpack

import (
	"archive/tar"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"crowsnest/internal/text"
)

// Errors that end the unpacking of the outermost archive.
var (
	errTooBig = errors.New("it contains too much")
	errDisk   = errors.New("cannot write to the temporary folder")
)

func isFinal(err error) bool { return errors.Is(err, errTooBig) || errors.Is(err, errDisk) }

const maxName = 1024

type unpacker struct {
	root   *os.Root
	limits Limits
	packed int64 // size of the outermost archive in bytes
	result Result
	count  int // number of entries
	names  int // total length of all names in bytes
	queue  []nestedArchive
	seed   maphash.Seed
	copies map[uint64]int // newest copy of a name that occurred more than once; the key is the name's hash
}

// nestedArchive is an archive inside the archive, stored as a file until it is unpacked.
type nestedArchive struct {
	name  string
	depth int
}

// Unpack unpacks an archive into dir, which must be an existing empty folder. An archive in the archive becomes a
// folder with the name of the inner archive. The result lists the entries that could not be unpacked. An error concerns
// only the archive file itself and the folder.
func Unpack(archive, dir string, limits Limits) (Result, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Result{}, fmt.Errorf("open the folder for unpacked files: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing was written through root itself
	f, err := os.Open(archive)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Result{}, err
	}
	u := &unpacker{root: root, limits: limits, packed: info.Size(), seed: maphash.MakeSeed(), copies: map[uint64]int{}}
	err = u.unpackFile(f, ".", path.Base(archive), 1)
	u.noteLost(".", err)
	for !isFinal(err) && len(u.queue) > 0 {
		next := u.queue[0]
		u.queue = u.queue[1:]
		err = u.unpackNested(next)
		u.noteLost(next.name, err)
	}
	for _, left := range u.queue {
		u.noteLost(left.name, errors.New("a limit was reached before this file"))
		_ = root.Remove(left.name) // a remaining file could be mistaken for a log
	}
	if u.result.Refused = errors.Is(err, errTooBig); u.result.Refused {
		// If nothing was unpacked, problems of single entries would hide the reason.
		u.result.Problems = slices.DeleteFunc(u.result.Problems, func(p Problem) bool { return p.Reason != err.Error() })
	}
	return u.result, nil
}

func (u *unpacker) noteLost(name string, err error) {
	if err != nil {
		u.addProblem(Problem{Path: name, Reason: err.Error(), Lost: true})
	}
}

func (u *unpacker) addProblem(p Problem) {
	p.Path = displayName(p.Path)
	u.result.Problems = append(u.result.Problems, p)
}

// unpackFile unpacks a file into a folder. If the file is compressed but not an archive, name is the name of the
// decompressed file.
func (u *unpacker) unpackFile(f *os.File, dir, name string, depth int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := readHead(f)
	in := &source{ReaderAt: f, u: u, dir: dir, depth: depth}
	whole := io.NewSectionReader(in, 0, info.Size())
	switch p := detectPacking(head); {
	case isZip(head):
		return u.unpackZip(in, info.Size())
	case p != nil:
		br, archive, done, err := unpackedTar(p, whole)
		if err != nil {
			return err
		}
		defer done()
		if !archive {
			return in.writeFile(path.Join(dir, unpackedName(p, name)), info.ModTime(), br)
		}
		return u.unpackTar(br, in)
	case isTar(head):
		return u.unpackTar(whole, in)
	}
	return errors.New("it is not an archive")
}

func (u *unpacker) unpackNested(n nestedArchive) error {
	if n.depth > u.limits.Depth {
		_ = u.root.Remove(n.name) // a remaining file could be mistaken for a log
		return fmt.Errorf("it is nested in more than %d archives; unpack it by hand", u.limits.Depth-1)
	}
	f, err := u.root.Open(n.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := u.root.Remove(n.name); err != nil {
		return err
	}
	dir := n.name
	if p := detectPacking(readHead(f)); p != nil {
		if _, archive, done, err := unpackedTar(p, io.NewSectionReader(f, 0, 1<<62)); err == nil {
			done()
			if !archive {
				dir = path.Dir(n.name) // a decompressed log stays in the folder of the compressed one
			}
		}
	}
	if err := u.root.MkdirAll(dir, 0o700); err != nil {
		return onDisk(err)
	}
	return u.unpackFile(f, dir, path.Base(n.name), n.depth)
}

func unpackedName(p *archiveFormat, name string) string {
	for _, s := range p.suffixes {
		if cut, ok := strings.CutSuffix(name, s[0]); ok && cut != "" {
			return cut + s[1]
		}
	}
	return name
}

func readHead(f io.ReaderAt) []byte {
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0)
	return head[:n]
}

func (u *unpacker) unpackTar(r io.Reader, in *source) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			// The stream is read to its end, because a compressed archive ends with a checksum.
			_, err = io.Copy(io.Discard, &boundedReader{r: r, in: in})
			return damagedEnd(err)
		case err != nil:
			return damagedEnd(err)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
			err = in.writeEntry(h.Name, h.ModTime, tr)
		case tar.TypeDir, tar.TypeXGlobalHeader:
			err = u.countEntry(h.Name)
		default:
			err = u.noteSpecial(in.dir, h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func damagedEnd(err error) error {
	if err == nil || isFinal(err) {
		return err
	}
	return fmt.Errorf("its end is missing or damaged: %w", err)
}

func (u *unpacker) noteSpecial(dir, name string) error {
	u.addProblem(Problem{Path: path.Join(dir, path.Clean("/"+name)), Reason: "a link or a special file"})
	return u.countEntry(name)
}

func (u *unpacker) countEntry(name string) error {
	u.names += len(name)
	if u.count++; u.count > u.limits.Entries || u.names > u.limits.Names {
		return u.tooMany()
	}
	return nil
}

func (u *unpacker) tooMany() error {
	return fmt.Errorf("%w: more than %d files, or %d MiB of names, so nothing of it was read; unpack it by hand and scan the folders that matter", errTooBig, u.limits.Entries, u.limits.Names>>20)
}

// createFile creates a new file and the folders above it. If the name exists, it adds a number to the name.
func (u *unpacker) createFile(name string) (*os.File, string, error) {
	if err := u.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, name, onDisk(err)
	}
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := u.root.OpenFile(name, flags, 0o600)
	key, ext := maphash.String(u.seed, name), path.Ext(name)
	numbered := name
	for n := max(u.copies[key], 1) + 1; errors.Is(err, fs.ErrExist); n++ {
		u.copies[key] = n
		numbered = fmt.Sprintf("%s~%d%s", strings.TrimSuffix(name, ext), n, ext)
		f, err = u.root.OpenFile(numbered, flags, 0o600)
	}
	return f, numbered, onDisk(err)
}

// onDisk marks an error as fatal if the disk caused it.
func onDisk(err error) error {
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, reason) {
			return fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, reason)
		}
	}
	return err
}

// displayName returns the name of an archive in a form for messages. The name comes from an input.
func displayName(name string) string { return text.Printable(text.Shorten(name, 200)) }

// Limits limits the unpacking of one archive, including all archives in it.
type Limits struct {
	Bytes   int64 // maximum total size of all files in bytes
	Ratio   int64 // maximum ratio of unpacked to packed bytes
	Entries int   // maximum number of files and folders
	Depth   int   // maximum depth of archives in archives
	Names   int   // maximum total length of all names in bytes
	// RatioFrom is the number of unpacked bytes from which on Ratio is checked. A small file may have a high ratio,
	// because it repeats one line.
	RatioFrom int64
}

// DefaultLimits returns limits for support bundles. The largest bundles in public issues have a few GiB. Logs are
// compressed to one thirtieth at best.
func DefaultLimits() Limits {
	return Limits{Bytes: 16 << 30, Ratio: 400, RatioFrom: 256 << 20, Entries: 200_000, Depth: 5, Names: 32 << 20}
}

// Problem describes an entry, or an archive in the archive, that was not completely unpacked.
type Problem struct {
	Path   string // path below the folder, or "." for the archive itself; printable and limited in length
	Reason string
	// Lost reports whether log lines may be missing. It is false for links and special files.
	Lost bool
}

// Result describes the unpacked files.
type Result struct {
	Files    int
	Bytes    int64 // number of written bytes, including nested archives
	Problems []Problem
	// Refused reports whether a limit was exceeded. The unpacked part must then not be read, because it is hundreds of
	// thousands of files, or gigabytes without useful content.
	Refused bool
}

// Complete reports whether all entries that may contain log lines were unpacked.
func (r Result) Complete() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Lost })
}

// source is an archive that is being unpacked. It counts the bytes that are read from the archive.
type source struct {
	io.ReaderAt

	u     *unpacker
	dir   string // folder for the files of the archive
	depth int

	consumed, produced int64 // number of bytes that were read from the archive, and that were written
}

func (s *source) ReadAt(p []byte, t int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, t)
	s.consumed += int64(n)
	return n, err
}

// writeEntry writes a file of the archive. It sets the modification time if the time is known. It returns an error only
// if unpacking must end.
func (s *source) writeEntry(name string, modified time.Time, r io.Reader) error {
	if err := s.u.countEntry(name); err != nil {
		return err
	}
	local := path.Clean(strings.TrimLeft(strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), `\`, "/"), "/"))
	err := errors.New("the name leads out of the archive")
	switch {
	case len(name) > maxName:
		err = fmt.Errorf("the name has more than %d bytes", maxName)
	case fs.ValidPath(local) && local != ".":
		err = s.writeFile(path.Join(s.dir, local), modified, r)
		name = local
	}
	if isFinal(err) {
		return err
	}
	s.u.noteLost(entryPath(s.dir, name), err)
	return nil
}

func entryPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// writeFile writes a file. If the file is an archive, writeFile also adds it to the queue.
func (s *source) writeFile(name string, modified time.Time, r io.Reader) error {
	f, name, err := s.u.createFile(name)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	_, err = io.Copy(diskWriter{f}, &boundedReader{r: r, in: s})
	if isFinal(err) {
		_ = s.u.root.Remove(name)
		return err
	}
	_ = s.u.root.Chtimes(name, time.Time{}, modified) // an error is ignored, because the time comes from the archive and may be invalid for the file system
	s.u.result.Files++                                // a damaged entry also counts, because its beginning was read
	if err == nil && IsArchive(f) {
		s.u.result.Files--
		s.u.queue = append(s.u.queue, nestedArchive{name: name, depth: s.depth + 1})
	}
	return err
}

// withoutPath returns an error without its path. It is for messages that already contain the path.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && !isFinal(err) {
		return p.Err
	}
	return err
}

// diskWriter is a writer for a file. Its errors end the unpacking, because the next file could not be
// written either.
type diskWriter struct{ w io.Writer }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, withoutPath(err))
	}
	return n, err
}

type boundedReader struct {
	r  io.Reader
	in *source
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	u := b.in.u
	b.in.produced += int64(n)
	u.result.Bytes += int64(n)
	l := u.limits
	switch {
	case u.result.Bytes > l.Bytes:
		return n, fmt.Errorf("%w: more than %d GiB, so nothing of it was read; unpack it by hand and scan the folders that matter", errTooBig, l.Bytes>>30)
	case b.in.produced > l.RatioFrom && b.in.produced/l.Ratio > b.in.consumed, u.result.Bytes > l.RatioFrom && u.result.Bytes/l.Ratio > u.packed:
		return n, fmt.Errorf("%w: more than %d times its size, which is not plausible for logs, so nothing of it was read; if you trust the archive, unpack it by hand", errTooBig, l.Ratio)
	}
	return n, err
}
