package daemon

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// ReleaseProgram removes pages of the program file from the memory of the process. They are there because the start
// executes most of the program once, and because the kernel maps 64 KiB around each page that is used. Pages that are
// used again are mapped again from the page cache without reading the disk. After an error, some or all of the pages
// may remain in memory.
func ReleaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := programMappings(f, program)
	if err != nil {
		return err
	}
	for _, m := range list {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("free the memory %x-%x of the program: %w", m.from, m.to, errno)
		}
	}
	return nil
}

type mapping struct{ from, to uintptr }

// programMappings returns the mappings of file whose pages are identical to the file. These mappings are read-only, and
// their pages were not changed before, for example by a relocation. programMappings reads smaps no further than the
// last mapping of the file.
func programMappings(smaps io.Reader, file string) (list []mapping, err error) {
	var m mapping
	var perms string
	found, in := false, false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if !strings.HasSuffix(words[0], ":") { // the line is the first line of a mapping
			if in = len(words) >= 6 && strings.Join(words[5:], " ") == file; !in && found {
				return list, nil
			}
			found = found || in
			perms = words[1]
			if _, err := fmt.Sscanf(words[0], "%x-%x", &m.from, &m.to); err != nil {
				return nil, fmt.Errorf("read the mappings of the program: %w", err)
			}
			continue
		}
		if in && words[0] == "Anonymous:" && words[1] == "0" && !strings.Contains(perms, "w") {
			list = append(list, m)
		}
	}
	return list, lines.Err()
}
