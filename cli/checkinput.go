package cli

import (
	"errors"
	"fmt"
	"io"

	"crowsnest/lab/inputs"
	"crowsnest/replay"
)

var errEmpty = errors.New("the input has no text: this is no all-clear")

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

// checkInput says what of the input was left out or not understood. It returns an error if
// the report says nothing about the cluster: nothing was read, or nothing was found in
// lines of which too few were understood.
func checkInput(w io.Writer, r replay.Report, account *inputs.Account) error {
	if r.Lines == 0 {
		return errEmpty
	}
	for _, note := range account.Notes() {
		fmt.Fprintln(w, note)
	}
	if none := account.NotUnderstood(); len(none) > 0 {
		return fmt.Errorf("no line of %s has a timestamp in a known format, so the input was not understood: this is no all-clear; provide the logs as the containers wrote them", named(none))
	}
	if len(r.Untimed) > 0 {
		fmt.Fprintf(w, "no line of %s has a timestamp in a known format; the lines were read as plain text, in their order\n", named(r.Untimed))
	}
	found := r.Fired() > 0 || r.Rules == nil && r.Hits > 0
	for _, d := range account.Doubts() {
		said := fmt.Sprintf("only %d of %d lines of %s are in a known format", d.Understood, d.Lines, d.Name)
		if !found {
			return fmt.Errorf("%s: this is no all-clear; provide the logs as the containers wrote them", said)
		}
		fmt.Fprintf(w, "%s; there may be more in the others\n", said)
	}
	return nil
}

// named returns the first name of a list and the number of the others.
func named(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}
