package cli

import (
	"errors"
	"fmt"
	"io"

	"crowsnest/lab/inputs"
	"crowsnest/replay"
)

var errEmpty = errors.New("the input is empty: this is no all-clear")

// checkRead returns an error if no line was read: err, which says why, or that there was
// none. A person gets the error instead of a result; a document in JSON exists anyway.
func checkRead(lines int64, form string, err error) error {
	switch {
	case lines > 0 || form == "json":
		return nil
	case err != nil:
		return err
	}
	return errEmpty
}

// checkInput returns an error if a report says nothing about the cluster, because
// nothing was read or no input looks like a log. It warns about single inputs that
// do not.
func checkInput(w io.Writer, r replay.Report, account *inputs.Account) error {
	switch {
	case r.Lines == 0:
		return errEmpty
	case len(r.Untimed) == 0:
		return nil
	}
	if none := account.NotUnderstood(); len(none) > 0 {
		return fmt.Errorf("no line of %s has a timestamp in a known format, so the input was not understood: this is no all-clear; provide the logs as the containers wrote them", named(none))
	}
	fmt.Fprintf(w, "no line of %s has a timestamp in a known format; the lines were read as plain text\n", named(r.Untimed))
	return nil
}

// named returns the first name of a list and the number of the others.
func named(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}
