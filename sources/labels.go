package sources

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/prometheus/common/model"
)

// CheckLabels checks the labels in the configuration of a source. It returns an error for each label whose name is
// invalid or in taken. The labels in taken have another origin. origin describes it, such as "the pod". kind is the
// kind of the source.
func CheckLabels(kind string, labels map[string]string, origin string, taken ...string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case !model.LegacyValidation.IsValidLabelName(name):
			errs = append(errs, fmt.Errorf("%s: label %q is not a label name; use letters, digits and _", kind, name))
		case slices.Contains(taken, name):
			errs = append(errs, fmt.Errorf("%s: label %q is already set by %s; remove it here", kind, name, origin))
		}
	}
	return errs
}

// CheckGlobs returns an error for each invalid glob. key is the name of the setting.
func CheckGlobs(key string, globs []string) []error {
	var errs []error
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, fmt.Errorf("%s has %q, which is not a glob; close its [ or remove a trailing \\", key, glob))
		}
	}
	return errs
}

// MatchesAny reports whether one of the globs matches a name.
func MatchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return ok && err == nil
	})
}
