package sources

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
)

// CheckLabels returns an error for each configured label of a source of a kind whose name
// is no label name, or is one of the names that come from elsewhere, such as "the pod".
func CheckLabels(kind string, labels map[string]string, origin string, taken ...string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("%s: label %q is not a label name; use letters, digits and _", kind, name))
		case slices.Contains(taken, name):
			errs = append(errs, fmt.Errorf("%s: label %q comes from %s; remove it", kind, name, origin))
		}
	}
	return errs
}
