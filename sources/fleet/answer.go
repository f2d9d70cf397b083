package fleet

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"crowsnest/internal/lazyre"
)

// errForeign is an answer that is not from crowsnest.
var errForeign = refused{errors.New("the answer is not from crowsnest")}

// episode is what is used of a firing alert.
type episode struct {
	Alert       string    `json:"alert"`
	Pack        string    `json:"pack"`
	State       string    `json:"state"`
	Silent      bool      `json:"silent"`
	StartsAt    time.Time `json:"startsAt"`
	Labels      struct{ Severity string }
	Annotations struct{ Affected string }
}

var alertName = lazyre.New(`^[a-zA-Z_][a-zA-Z0-9_]{0,199}$`)

// tallied reads the alerts of an answer one by one, so that only one is in memory.
func tallied(in *json.Decoder) (*tally, error) {
	out := newTally()
	listed, ok := false, false
	err := object(in, func(key string) error {
		switch key {
		case "status":
			var status string
			err := in.Decode(&status)
			ok = status == "success"
			return err
		case "data":
			return object(in, func(key string) error {
				if key != "episodes" {
					return skip(in)
				}
				listed = true
				return out.read(in)
			})
		}
		return skip(in)
	})
	if err == nil && !(listed && ok) {
		err = errForeign
	}
	return out, err
}

// read counts the alerts of a list.
func (t *tally) read(in *json.Decoder) error {
	if err := delimiter(in, '['); err != nil {
		return err
	}
	for in.More() {
		var e episode
		if err := in.Decode(&e); err != nil {
			return err
		}
		if e.State != "firing" || e.Silent {
			continue
		}
		if !alertName.MatchString(e.Alert) {
			return errForeign
		}
		t.add(&e)
		if len(t.rules) > maxRules {
			return refused{errors.New("alerts of more than 1000 rules are open there: the answer is not used")}
		}
	}
	return delimiter(in, ']')
}

// object calls each for every key of an object; each reads the value.
func object(in *json.Decoder, each func(key string) error) error {
	if err := delimiter(in, '{'); err != nil {
		return err
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := each(name); err != nil {
			return err
		}
	}
	return delimiter(in, '}')
}

func delimiter(in *json.Decoder, want json.Delim) error {
	got, err := in.Token()
	if err == nil && got != want {
		err = errForeign
	}
	return err
}

// skip reads a value that is not used.
func skip(in *json.Decoder) error {
	var value json.RawMessage
	return in.Decode(&value)
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
