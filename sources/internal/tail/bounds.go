package tail

import (
	"errors"
	"fmt"
	"time"
)

// CheckBounds checks the settings of every source that follows files. The error
// lists every problem, each prefixed with the name of the source. Zero stands for
// the default.
func CheckBounds(source string, lookBack, poll time.Duration, maxOpen int) error {
	var errs []error
	if lookBack < 0 {
		errs = append(errs, fmt.Errorf("%s: look_back must not be negative", source))
	}
	if poll < 0 || poll > time.Minute {
		errs = append(errs, fmt.Errorf("%s: poll_interval must be between 0 and 1m", source))
	}
	if maxOpen < 0 {
		errs = append(errs, fmt.Errorf("%s: max_open_files must not be negative", source))
	}
	return errors.Join(errs...)
}
