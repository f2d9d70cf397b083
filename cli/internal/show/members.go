package show

import (
	"bytes"
	"io"
	"reflect"
	"strings"
)

// member is a member of a JSON object whose value is a list.
type member struct {
	name string
	list any // a slice
}

// members writes an object as JSON does, but one element of its lists after the other: the
// text of 200,000 files would need as much memory as all else.
func members(w io.Writer, all []member) error {
	var buf bytes.Buffer
	write := func(text string) error {
		_, err := io.WriteString(w, text)
		return err
	}
	separator := "{"
	for _, m := range all {
		begin := separator + "\n  \"" + m.name + "\": "
		separator = ","
		list := reflect.ValueOf(m.list)
		if !list.IsValid() || list.Len() == 0 {
			empty := "[]"
			if !list.IsValid() || list.IsNil() {
				empty = "null"
			}
			if err := write(begin + empty); err != nil {
				return err
			}
			continue
		}
		begin += "["
		for k := range list.Len() {
			buf.Reset()
			if err := indented(&buf, list.Index(k).Interface(), "    "); err != nil {
				return err
			}
			if err := write(begin + "\n    " + strings.TrimRight(buf.String(), "\n")); err != nil {
				return err
			}
			begin = ","
		}
		if err := write("\n  ]"); err != nil {
			return err
		}
	}
	return write("\n}\n")
}
