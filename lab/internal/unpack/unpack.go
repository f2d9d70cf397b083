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

	"crowsnest/internal/text"
)

// Errors that end the unpacking of the outermost archive.
var (
	errTooBig = errors.New("it contains too much")
	errDisk   = errors.New("cannot write to the temporary folder")
)

// isFinal reports whether err ends the unpacking.
func isFinal(err error) bool { return errors.Is(err, errTooBig) || errors.Is(err, errDisk) }

// maxName is the maximum length of the path of an entry.
const maxName = 1024

// unpacker unpacks one archive and all archives in it.
type unpacker struct {
	root   *os.Root
	limits Limits
	packed int64 // size of the outermost archive in bytes
	result Result
	count  int // number of entries
	names  int // bytes of all names
	queue  []nested
	seed   maphash.Seed
	copies map[uint64]int // number of the newest copy of a file whose name already existed, by hash of the name
}

// nested is an archive inside the archive. It is stored as a file in the folder until it is
// unpacked.
type nested struct {
	name  string
	depth int
}

// Unpack unpacks the archive at a path into dir, an existing empty folder. An archive inside it
// becomes a folder with the name of that archive. The result lists what could not be unpacked,
// besides what could; the error concerns only the archive file and the folder.
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
		_ = root.Remove(left.name) // a file that stays could be taken for a log
	}
	if u.result.Refused = errors.Is(err, errTooBig); u.result.Refused {
		// Nothing of the archive is read, so problems of single entries would only hide the
		// reason.
		u.result.Problems = slices.DeleteFunc(u.result.Problems, func(p Problem) bool { return p.Reason != err.Error() })
	}
	return u.result, nil
}

// noteLost records that an entry, or the rest of it, was not unpacked.
func (u *unpacker) noteLost(name string, err error) {
	if err != nil {
		u.addProblem(Problem{Path: name, Reason: err.Error(), Lost: true})
	}
}

func (u *unpacker) addProblem(p Problem) {
	p.Path = displayName(p.Path)
	u.result.Problems = append(u.result.Problems, p)
}

// unpackFile unpacks a file into a folder. name is the name of the unpacked file, if f is
// compressed but not an archive.
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

// unpackNested replaces an archive by a folder with its content.
func (u *unpacker) unpackNested(n nested) error {
	if n.depth > u.limits.Depth {
		_ = u.root.Remove(n.name) // a file that stays could be taken for a log
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
				dir = path.Dir(n.name) // a compressed log stays in its folder
			}
		}
	}
	if err := u.root.MkdirAll(dir, 0o700); err != nil {
		return onDisk(err)
	}
	return u.unpackFile(f, dir, path.Base(n.name), n.depth)
}

// unpackedName returns the name of a compressed file after unpacking.
func unpackedName(p *packing, name string) string {
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
			// The checksum of a compressed archive follows its last block, so the stream is
			// read to its end.
			_, err = io.Copy(io.Discard, &bounded{r: r, in: in})
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

// noteSpecial records an entry without content of its own, such as a link.
func (u *unpacker) noteSpecial(dir, name string) error {
	u.addProblem(Problem{Path: path.Join(dir, path.Clean("/"+name)), Reason: "a link or a special file"})
	return u.countEntry(name)
}

// countEntry counts an entry and checks the limits.
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

// createFile creates a new file and the folders above it. If the name exists already, it adds a
// number.
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

// onDisk marks an error as one that ends the unpacking, if the disk caused it.
func onDisk(err error) error {
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, reason) {
			return fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, reason)
		}
	}
	return err
}

// displayName returns the name of an archive for a message. It is made printable, because it
// comes from an input.
func displayName(name string) string { return text.Printable(text.Shorten(name, 200)) }

// Limits are the limits for unpacking one archive with all archives in it.
type Limits struct {
	Bytes   int64 // total size of all files
	Ratio   int64 // highest ratio of unpacked to packed bytes, checked after RatioFrom unpacked bytes
	Entries int   // number of files and folders
	Depth   int   // depth of archives inside archives
	Names   int   // total bytes of all names
	// RatioFrom is the number of unpacked bytes from which Ratio is checked. Below it a high
	// ratio is normal, because a small file may repeat one line.
	RatioFrom int64
}

// DefaultLimits returns the limits for bundles. The largest bundles in public issues have a few
// GiB, and logs are compressed to a thirtieth at best.
func DefaultLimits() Limits {
	return Limits{Bytes: 16 << 30, Ratio: 400, RatioFrom: 256 << 20, Entries: 200_000, Depth: 5, Names: 32 << 20}
}

// Problem is an entry, or an archive inside the archive, that was not or not completely
// unpacked.
type Problem struct {
	Path   string // path below the folder, "." for the archive itself; printable and limited in length
	Reason string
	// Lost reports whether lines may be missing. This is false for links and special files.
	Lost bool
}

// Result says what was unpacked.
type Result struct {
	Files    int
	Bytes    int64 // number of bytes written, including those of nested archives
	Problems []Problem
	// Refused reports whether a limit was exceeded. The part that was unpacked is then not
	// worth reading, because it is hundreds of thousands of files, or gigabytes without
	// content.
	Refused bool
}

// Complete reports whether everything that may contain lines was unpacked.
func (r Result) Complete() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Lost })
}
