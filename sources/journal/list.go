package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"crowsnest/internal/lazyre"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/journal/internal/journalfile"
)

// Limits of the files that are followed. By default, journald keeps 100 files.
const (
	maxFiles   = 4096
	maxOpen    = 1024
	maxFolders = 64
)

// folderName matches a machine ID, optionally followed by a dot and a namespace.
var folderName = lazyre.New(`^[0-9a-f]{32}(\.[A-Za-z0-9:_.-]{1,200})?$`)

// root is one of the configured directories of journals.
type root struct {
	dir   *logdir.Root
	cache *logdir.Cache
	seen  map[string]int64 // generation of the last handled listing of each folder
}

func newRoot(path string) *root {
	return &root{dir: &logdir.Root{Path: path}, cache: logdir.NewCache(), seen: map[string]int64{}}
}

// finding is the result of one search of the directories.
type finding struct {
	folders int
	unread  []sources.Unread // files that cannot be read
	err     error            // error of a directory, or of a file that journald writes to
}

func (l *finding) addRefused(path string, err error, holds bool, now time.Time) {
	l.unread = append(l.unread, sources.Unread{Path: path, Why: err.Error(), Since: now, Holds: holds})
}

// findFiles looks for new, renamed and removed files. A missing directory counts as empty.
func (s *Source) findFiles(now time.Time) finding {
	var out finding
	for _, r := range s.roots {
		if err := s.findBelow(r, now, &out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			out.err = errors.Join(out.err, explainError(err, nil))
		}
	}
	return out
}

func (s *Source) findBelow(r *root, now time.Time, out *finding) error {
	if r.dir.Moved() {
		if err := r.dir.Reopen(); err != nil {
			s.forgetFolders(r, nil)
			return err
		}
		s.forgetFolders(r, nil)
		r.cache = logdir.NewCache()
	}
	d := r.dir.Borrow()
	defer d.Release()
	top, err := r.cache.Get(d, ".", now)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	var errs []error
	for _, e := range top.Entries {
		if !e.Dir || !folderName.MatchString(e.Name) || len(names) == maxFolders {
			continue
		}
		names[e.Name] = true
		folder, err := r.cache.Get(d, e.Name, now)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // removed in the meantime
		case err != nil:
			errs = append(errs, err)
			continue
		}
		out.folders++
		key := path.Join(r.dir.Path, e.Name)
		if r.seen[e.Name] != folder.Gen || len(s.refused[key]) > 0 {
			s.refused[key] = s.findInFolder(d, r, e.Name, folder.Entries, now)
			r.seen[e.Name] = folder.Gen
		}
		for _, u := range s.refused[key] {
			out.unread = append(out.unread, u)
			if u.Holds && out.err == nil { // the status page shows the other errors too
				out.err = errors.New(u.Why)
			}
		}
	}
	s.forgetFolders(r, names)
	return errors.Join(errs...)
}

// forgetFolders records that the files of removed folders no longer have names.
func (s *Source) forgetFolders(r *root, names map[string]bool) {
	for name := range r.seen {
		if !names[name] {
			s.forgetFolder(path.Join(r.dir.Path, name))
			delete(r.seen, name)
		}
	}
}

func (s *Source) forgetFolder(folder string) {
	for _, f := range s.files {
		if path.Dir(f.path) == folder {
			f.listed = false
		}
	}
	delete(s.refused, folder)
}

// findInFolder handles the files of a folder whose listing changed. It returns the files that
// cannot be read.
func (s *Source) findInFolder(d *logdir.Dir, r *root, folder string, entries []logdir.Entry, now time.Time) []sources.Unread {
	dir := path.Join(r.dir.Path, folder)
	since := map[string]time.Time{}
	for _, u := range s.refused[dir] {
		since[u.Path] = u.Since
	}
	s.forgetFolder(dir)
	var out finding
	for _, e := range entries {
		if e.Dir || !isJournal(e.Name) {
			continue
		}
		rel := path.Join(folder, e.Name)
		if err := s.handleFile(d, r, rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			info, _ := r.dir.Lstat(rel)
			at := now
			if t, known := since[path.Join(dir, e.Name)]; known {
				at = t
			}
			// An archived file with a damaged header will never become readable.
			holds := !isArchivedName(e.Name) || !errors.Is(err, journalfile.ErrFormat)
			out.addRefused(path.Join(dir, e.Name), explainError(err, info), holds, at)
		}
	}
	return out.unread
}

// handleFile handles the file at rel. The file may be known under this name or another one. A
// new file is opened.
func (s *Source) handleFile(d *logdir.Dir, r *root, rel string) error {
	name := r.dir.Abs(rel)
	info, err := r.dir.Lstat(rel)
	if err != nil {
		return err
	}
	for _, f := range s.files {
		if !f.listed && f.isFile(info) {
			f.path, f.listed, f.stamp = name, true, newStamp(info)
			return nil
		}
	}
	if len(s.files) >= maxFiles || s.open >= maxOpen {
		return fmt.Errorf("%s is not read: there are more than %d unread files", name, min(maxFiles, maxOpen))
	}
	opened, info, err := d.Open(rel)
	if err != nil {
		return err
	}
	h, err := journalfile.Open(opened, maxValue)
	if err != nil {
		defer opened.Close()
		if errors.Is(err, journalfile.ErrFormat) && isBeingCreated(opened) {
			r.seen[path.Dir(rel)] = -1 // look at the folder again
			s.young = true
			return nil
		}
		return fmt.Errorf("read %s: %w", name, err)
	}
	id := h.Header().File
	if f := s.files[id]; f != nil && f.listed {
		return opened.Close() // a copy of a known file
	} else if f != nil { // journald changed the file, or copied it to change its attributes
		f.path, f.listed, f.stamp = name, true, newStamp(info)
		if f.f == nil {
			f.inode = newInode(info)
		}
		return opened.Close()
	}
	s.startFile(&file{path: name, id: id, inode: newInode(info), stamp: newStamp(info), listed: true, f: opened, r: h})
	return nil
}
