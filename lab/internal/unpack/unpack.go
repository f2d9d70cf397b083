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

// ends reports whether nothing more can be unpacked after an error.
func ends(err error) bool { return errors.Is(err, errTooBig) || errors.Is(err, errDisk) }

// maxName bounds the path of an entry.
const maxName = 1024

// unpacker unpacks one archive with all archives in it.
type unpacker struct {
	root   *os.Root
	limits Limits
	packed int64 // bytes of the outermost archive
	result Result
	count  int // entries
	names  int // bytes of their names
	queue  []nested
	seed   maphash.Seed
	copies map[uint64]int // number of the newest file with a name that exists already
}

// nested is an archive in the archive. It lies in the folder as a file until its turn.
type nested struct {
	name  string
	depth int
}

// Unpack unpacks the archive at a path into an existing empty folder. An archive in it
// becomes a folder with the name of the archive. What cannot be unpacked is in the result,
// and does not hide the rest; the error is about the archive file and the folder themselves.
func Unpack(archive, dir string, limits Limits) (Result, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Result{}, fmt.Errorf("open the folder for unpacked files: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing was written through it
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
	err = u.unpack(f, ".", path.Base(archive), 1)
	u.lost(".", err)
	for !ends(err) && len(u.queue) > 0 {
		next := u.queue[0]
		u.queue = u.queue[1:]
		err = u.nested(next)
		u.lost(next.name, err)
	}
	for _, left := range u.queue {
		u.lost(left.name, errors.New("the limits were reached before it"))
		_ = root.Remove(left.name) // nobody may take it for a log
	}
	if u.result.Refused = errors.Is(err, errTooBig); u.result.Refused {
		// Nothing of it is read, so the problems of single entries only hide the reason.
		u.result.Problems = slices.DeleteFunc(u.result.Problems, func(p Problem) bool { return p.Reason != err.Error() })
	}
	return u.result, nil
}

// lost notes that an entry, or the rest of it, was not unpacked.
func (u *unpacker) lost(name string, err error) {
	if err != nil {
		u.problem(Problem{Path: name, Reason: err.Error(), Lost: true})
	}
}

func (u *unpacker) problem(p Problem) {
	p.Path = shown(p.Path)
	u.result.Problems = append(u.result.Problems, p)
}

// unpack unpacks a file into a folder. name is that of the file, for one without an
// archive in it.
func (u *unpacker) unpack(f *os.File, dir, name string, depth int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head := headOf(f)
	in := &source{ReaderAt: f, u: u, dir: dir, depth: depth}
	whole := io.NewSectionReader(in, 0, info.Size())
	switch p := packingOf(head); {
	case isZip(head):
		return u.zip(in, info.Size())
	case p != nil:
		br, archive, done, err := unpackedTar(p, whole)
		if err != nil {
			return err
		}
		defer done()
		if !archive {
			return in.write(path.Join(dir, unpackedName(p, name)), info.ModTime(), br)
		}
		return u.tar(br, in)
	case isTar(head):
		return u.tar(whole, in)
	}
	return errors.New("it is no archive")
}

// nested replaces an archive by a folder with what it contains.
func (u *unpacker) nested(n nested) error {
	if n.depth > u.limits.Depth {
		_ = u.root.Remove(n.name) // nobody may take it for a log
		return fmt.Errorf("it lies in more than %d archives; unpack it by hand", u.limits.Depth-1)
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
	if p := packingOf(headOf(f)); p != nil {
		if _, archive, done, err := unpackedTar(p, io.NewSectionReader(f, 0, 1<<62)); err == nil {
			done()
			if !archive {
				dir = path.Dir(n.name) // a packed log stays where it is
			}
		}
	}
	if err := u.root.MkdirAll(dir, 0o700); err != nil {
		return onDisk(err)
	}
	return u.unpack(f, dir, path.Base(n.name), n.depth)
}

// unpackedName returns the name of what a packed file contains.
func unpackedName(p *packing, name string) string {
	for _, s := range p.suffixes {
		if cut, ok := strings.CutSuffix(name, s[0]); ok && cut != "" {
			return cut + s[1]
		}
	}
	return name
}

func headOf(f io.ReaderAt) []byte {
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0)
	return head[:n]
}

func (u *unpacker) tar(r io.Reader, in *source) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			// The checksum of a compressed archive stands behind its last block.
			_, err = io.Copy(io.Discard, &bounded{r: r, in: in})
			return damagedEnd(err)
		case err != nil:
			return damagedEnd(err)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
			err = in.entry(h.Name, h.ModTime, tr)
		case tar.TypeDir, tar.TypeXGlobalHeader:
			err = u.counted(h.Name)
		default:
			err = u.special(in.dir, h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func damagedEnd(err error) error {
	if err == nil || ends(err) {
		return err
	}
	return fmt.Errorf("its end is missing or damaged: %w", err)
}

// special notes an entry that has no content of its own.
func (u *unpacker) special(dir, name string) error {
	u.problem(Problem{Path: path.Join(dir, path.Clean("/"+name)), Reason: "a link or a special file"})
	return u.counted(name)
}

// counted counts an entry.
func (u *unpacker) counted(name string) error {
	u.names += len(name)
	if u.count++; u.count > u.limits.Entries || u.names > u.limits.Names {
		return u.tooMany()
	}
	return nil
}

func (u *unpacker) tooMany() error {
	return fmt.Errorf("%w: more than %d files, or %d MiB of names, so nothing of it was read; unpack it by hand and scan the folders that matter", errTooBig, u.limits.Entries, u.limits.Names>>20)
}

// create makes a new file with its folders. A second file of the same name gets a number.
func (u *unpacker) create(name string) (*os.File, string, error) {
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

// onDisk returns an error that ends the unpacking if the disk is the reason of an error.
func onDisk(err error) error {
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, reason) {
			return fmt.Errorf("%w: %w; make room, or set TMPDIR to another folder", errDisk, reason)
		}
	}
	return err
}

// shown returns a name of an archive for a message: anybody may have written it.
func shown(name string) string { return text.Printable(text.Shorten(name, 200)) }
