package unpack

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"crowsnest/internal/text"
)

// Errors of archives that are not unpacked further, because they exceed a limit.
var (
	errTooBig  = errors.New("it contains too much")
	errTooDeep = errors.New("it contains archives in archives in archives")
)

// unpacker unpacks one archive with all archives in it.
type unpacker struct {
	root   *os.Root
	limits Limits
	result Result
	count  int // entries
}

// Unpack unpacks the archive at a path into an existing empty folder. An archive in it
// becomes a folder with the name of the archive. With an error, what was unpacked before
// stays: one broken archive does not hide the others.
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
	u := &unpacker{root: root, limits: limits}
	err = u.unpack(f, ".", path.Base(archive), 1)
	return u.result, err
}

// unpack unpacks a file into a folder. name is that of the file, for one without an
// archive in it.
func (u *unpacker) unpack(f *os.File, dir, name string, depth int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if depth > u.limits.Depth {
		return fmt.Errorf("%w, more than %d deep; unpack it by hand", errTooDeep, u.limits.Depth)
	}
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0)
	head = head[:n]
	in := &source{packed: info.Size()}
	switch p := packingOf(head); {
	case isZip(head):
		return u.zip(f, info.Size(), in, dir, depth)
	case p != nil:
		br, archive, done, err := unpackedTar(p, io.NewSectionReader(f, 0, info.Size()))
		if err != nil {
			return err
		}
		defer done()
		if !archive {
			return u.write(path.Join(dir, unpackedName(p, name)), br, in, depth)
		}
		return u.tar(br, in, dir, depth)
	case isTar(head):
		return u.tar(io.NewSectionReader(f, 0, info.Size()), in, dir, depth)
	}
	return errors.New("it is no archive")
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

// source is the archive that a file comes from.
type source struct {
	packed, unpacked int64 // bytes
}

func (u *unpacker) tar(r io.Reader, in *source, dir string, depth int) error {
	var errs []error
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return errors.Join(errs...)
		case err != nil:
			return errors.Join(append(errs, fmt.Errorf("its end is missing or damaged: %w", err))...)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
			err = u.entry(dir, h.Name, in, depth, tr)
		case tar.TypeDir, tar.TypeXGlobalHeader:
			err = u.counted()
		default:
			err = u.counted()
			u.skip(dir, h.Name, "a link or a special file")
		}
		if stop := isLimit(err); stop {
			return errors.Join(append(errs, err)...)
		} else if err != nil {
			errs = appendBounded(errs, err)
		}
	}
}

func (u *unpacker) zip(f io.ReaderAt, size int64, in *source, dir string, depth int) error {
	zr, err := zip.NewReader(f, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("its table of contents is missing or damaged: %w", err)
	}
	if len(zr.File) > u.limits.Entries {
		return u.tooMany()
	}
	var errs []error
	for _, e := range zr.File {
		switch {
		case e.Mode().IsDir():
			err = u.counted()
		case !e.Mode().IsRegular():
			err = u.counted()
			u.skip(dir, e.Name, "a link or a special file")
		case e.Flags&1 != 0:
			err = fmt.Errorf("%s is encrypted; unpack it by hand", shown(e.Name))
		default:
			err = u.zipEntry(e, in, dir, depth)
		}
		if isLimit(err) {
			return errors.Join(append(errs, err)...)
		} else if err != nil {
			errs = appendBounded(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (u *unpacker) zipEntry(e *zip.File, in *source, dir string, depth int) error {
	rc, err := e.Open()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", shown(e.Name), err)
	}
	defer rc.Close()
	return u.entry(dir, e.Name, in, depth, rc)
}

// entry writes a file of an archive below a folder.
func (u *unpacker) entry(dir, name string, in *source, depth int, r io.Reader) error {
	if err := u.counted(); err != nil {
		return err
	}
	local := strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	if !fs.ValidPath(path.Clean(local)) || path.Clean(local) == "." {
		return fmt.Errorf("the name %q leads out of the archive; the entry was not unpacked", shown(name))
	}
	return u.write(path.Join(dir, path.Clean(local)), r, in, depth)
}

// write writes a file, and unpacks it if it is an archive.
func (u *unpacker) write(name string, r io.Reader, in *source, depth int) error {
	f, name, err := u.create(name)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", shown(name), err)
	}
	_, err = io.Copy(f, &bounded{r: r, u: u, in: in})
	if err != nil {
		_ = f.Close()
		if isLimit(err) {
			_ = u.root.Remove(name)
			return err
		}
		u.result.Files++ // its beginning is read
		return fmt.Errorf("unpack %s: %w", shown(name), err)
	}
	u.result.Files++
	if !Is(f) {
		return f.Close()
	}
	u.result.Files--
	err = u.nested(f, name, depth)
	return errors.Join(err, f.Close())
}

// nested replaces a file by a folder with what it contains.
func (u *unpacker) nested(f *os.File, name string, depth int) error {
	if err := u.root.Remove(name); err != nil {
		return err
	}
	dir := name
	if p := packingOf(headOf(f)); p != nil {
		if _, archive, done, err := unpackedTar(p, io.NewSectionReader(f, 0, 1<<62)); err == nil {
			done()
			if !archive {
				dir = path.Dir(name) // a packed log stays where it is
			}
		}
	}
	if err := u.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := u.unpack(f, dir, path.Base(name), depth+1); err != nil {
		if isLimit(err) {
			return err
		}
		return fmt.Errorf("unpack %s: %w", shown(name), err)
	}
	return nil
}

func headOf(f *os.File) []byte {
	head := make([]byte, headSize)
	n, _ := f.ReadAt(head, 0)
	return head[:n]
}

// create makes a new file with its folders. A second file of the same name gets a number.
func (u *unpacker) create(name string) (*os.File, string, error) {
	if err := u.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, name, err
	}
	ext := path.Ext(name)
	for i := 2; ; i++ {
		f, err := u.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) || i > 100 {
			return f, name, err
		}
		name = fmt.Sprintf("%s~%d%s", strings.TrimSuffix(strings.TrimSuffix(name, ext), fmt.Sprintf("~%d", i-1)), i, ext)
	}
}

func (u *unpacker) skip(dir, name, reason string) {
	u.result.Skipped = append(u.result.Skipped, Skipped{Path: path.Join(dir, path.Clean("/"+name)), Reason: reason})
}

// counted counts an entry.
func (u *unpacker) counted() error {
	if u.count++; u.count > u.limits.Entries {
		return u.tooMany()
	}
	return nil
}

func (u *unpacker) tooMany() error {
	return fmt.Errorf("%w: more than %d files; unpack it by hand and scan the folders that matter", errTooBig, u.limits.Entries)
}

// bounded reads a file of an archive and counts its bytes.
type bounded struct {
	r  io.Reader
	u  *unpacker
	in *source
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.in.unpacked += int64(n)
	b.u.result.Bytes += int64(n)
	l := b.u.limits
	switch {
	case b.u.result.Bytes > l.Bytes:
		return n, fmt.Errorf("%w: more than %d GiB; unpack it by hand and scan the folders that matter", errTooBig, l.Bytes>>30)
	case b.in.unpacked > l.RatioFrom && b.in.unpacked/l.Ratio > b.in.packed:
		return n, fmt.Errorf("%w: more than %d times its size, as no logs do; unpack it by hand if it is what it should be", errTooBig, l.Ratio)
	}
	return n, err
}

// isLimit reports whether an error ends the unpacking of the outermost archive.
func isLimit(err error) bool { return errors.Is(err, errTooBig) || errors.Is(err, errTooDeep) }

// maxErrors bounds the errors of one archive that are named.
const maxErrors = 20

func appendBounded(errs []error, err error) []error {
	if len(errs) == maxErrors {
		return append(errs, errors.New("and more entries that cannot be unpacked"))
	}
	if len(errs) > maxErrors {
		return errs
	}
	return append(errs, err)
}

// shown returns a name of an archive for a message: anybody may have written it.
func shown(name string) string { return text.Shorten(name, 200) }
