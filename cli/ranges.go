package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Limits of texts in flags and arguments.
const (
	maxText  = 4096     // maximum length of one text, such as a path, in bytes
	maxLine  = 64 << 10 // maximum length of --line in bytes
	maxTexts = 1000     // maximum number of values of a repeatable flag
)

const year = 365 * 24 * time.Hour

// number is a flag whose value is an integer between two limits. The help text shows the limits.
type number[T int | int64] struct {
	value    *T
	min, max T
}

func numberVar[T int | int64](value *T, normal, low, high T) *number[T] {
	*value = normal
	return &number[T]{value: value, min: low, max: high}
}

func (n *number[T]) String() string { return strconv.FormatInt(int64(*n.value), 10) }

func (n *number[T]) Type() string { return fmt.Sprintf("%d..%d", n.min, n.max) }

func (n *number[T]) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < int64(n.min) || v > int64(n.max) {
		return fmt.Errorf("use a whole number from %d to %d", n.min, n.max)
	}
	*n.value = T(v)
	return nil
}

// period is a flag whose value is a duration between two limits. The help text shows the limits. The default may be
// outside the limits. A default of 0 means that no duration is set.
type period struct {
	value    *time.Duration
	min, max time.Duration
}

// periodVar sets value to the default and returns a flag for it. The lower limit is one second.
func periodVar(value *time.Duration, normal, high time.Duration) *period {
	*value = normal
	return &period{value: value, min: time.Second, max: high}
}

func (p *period) String() string {
	if *p.value == 0 {
		return ""
	}
	return model.Duration(*p.value).String()
}

func (p *period) Type() string {
	return fmt.Sprintf("%s..%s", model.Duration(p.min), model.Duration(p.max))
}

func (p *period) Set(s string) error {
	d, err := model.ParseDuration(s)
	if v := time.Duration(d); err == nil && v >= p.min && v <= p.max {
		*p.value = v
		return nil
	}
	return fmt.Errorf("use a duration from %s to %s, such as 30s or 1h30m", model.Duration(p.min), model.Duration(p.max))
}

// instant is a flag whose value is a time. If before is set, the value may also be a duration, which is subtracted from
// another time.
type instant struct {
	text   string
	at     time.Time
	before *period
	ago    time.Duration // duration that is subtracted from the other time; zero if at is the value
}

// newSince returns a flag for a start time. Its default is the duration ago before the end time.
func newSince(ago time.Duration) *instant {
	i := &instant{text: model.Duration(ago).String()}
	i.before = periodVar(&i.ago, ago, 10*year)
	return i
}

func (i *instant) String() string { return i.text }

func (i *instant) Type() string {
	if i.before != nil {
		return i.before.Type() + "|TIME"
	}
	return "TIME"
}

func (i *instant) Set(s string) error {
	const fix = "a time from 1970 to 2261, such as 2026-01-31T12:00:00Z or 2026-01-31"
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		at, err = time.Parse(time.DateOnly, s)
	}
	if err == nil && at.Year() >= 1970 && at.Year() < 2262 {
		i.text, i.at, i.ago = s, at, 0
		return nil
	}
	if i.before == nil {
		return errors.New("use " + fix)
	}
	if err := i.before.Set(s); err != nil {
		return fmt.Errorf("%w, or %s", err, fix)
	}
	i.text = s
	return nil
}

func (i *instant) resolve(later time.Time) time.Time {
	if i.ago > 0 {
		return later.Add(-i.ago)
	}
	return i.at
}

// checkTexts checks the length and the number of arguments and of the values of flags, including values from
// environment variables.
func checkTexts(cmd *cobra.Command, args []string) error {
	var errs []error
	check := func(name, text string, limit int) {
		if len(text) > limit {
			errs = append(errs, fmt.Errorf("%s has %d bytes; use at most %d", name, len(text), limit))
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		limit := maxText
		if f.Name == "line" {
			limit = maxLine
		}
		texts := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			texts = list.GetSlice()
		}
		if len(texts) > maxTexts {
			errs = append(errs, fmt.Errorf("--%s has %d values; use at most %d", f.Name, len(texts), maxTexts))
		}
		for _, text := range texts {
			check("--"+f.Name, text, limit)
		}
	})
	for i, arg := range args {
		check(fmt.Sprintf("argument %d", i+1), arg, maxText)
	}
	return errors.Join(errs...)
}
