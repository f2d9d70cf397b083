package inputs

import (
	"fmt"
	"io"
	"maps"
	"os"

	"crowsnest/replay"
	"crowsnest/sources/journal"
)

// journalMagic is the beginning of a systemd journal.
const journalMagic = "LPKSHHRH"

// addJournal adds an input for each unit, identifier and transport in a journal.
func (c *collector) addJournal(path string) {
	f, err := os.Open(path)
	if err != nil {
		c.lose("read", path, err)
		return
	}
	defer f.Close()
	found, err := journal.ReadRecorded(f)
	if err != nil {
		c.lose("read", path, fmt.Errorf("it begins like a systemd journal: %w", err))
		return
	}
	file := c.read(c.shown(path), asJournal)
	if found.Damaged > 0 {
		c.account.Files[file].Problem = fmt.Sprintf("%d of %d entries are damaged", found.Damaged, found.Damaged+found.Entries)
	}
	for _, log := range found.Logs {
		labels := maps.Clone(log.Labels)
		maps.Copy(labels, c.labels(path))
		delete(labels, "filename")
		name := labels["unit"]
		if name == "" {
			name = labels["identifier"]
		}
		c.journals.add(file, nil, nil, replay.Input{Name: c.shown(path) + "[" + name + "]", Labels: labels, Open: func() (io.ReadCloser, error) {
			f, err := os.Open(path)
			if err != nil {
				return nil, cause(err)
			}
			lines := log.Lines(f)
			return journalLines{lines, f}, nil
		}})
	}
}

// journalLines reads lines of a journal, and closes the journal file when it is closed.
type journalLines struct {
	io.ReadCloser
	file io.Closer
}

// Close closes the lines and the file.
func (l journalLines) Close() error {
	_ = l.ReadCloser.Close() // never returns an error
	return l.file.Close()
}
