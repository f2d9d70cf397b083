package kube

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"crowsnest/internal/lazyre"
)

// maxNamespaces is the maximum number of namespaces that a source watches separately.
const maxNamespaces = 50

var namespaceName = lazyre.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckNamespaces returns the errors in the setting namespaces of a source. kind is the kind of the source. instead and
// all are parts of the errors. instead is the advice for a value that is not a name, and all describes the effect of
// removing the setting.
func CheckNamespaces(kind string, namespaces []string, instead, all string) []error {
	var errs []error
	for i, name := range namespaces {
		if !namespaceName.MatchString(name) {
			errs = append(errs, fmt.Errorf("%s: namespaces: %q is not the name of a namespace; %s", kind, name, instead))
		} else if slices.Contains(namespaces[:i], name) {
			errs = append(errs, fmt.Errorf("%s: namespaces: %q is listed twice; remove one", kind, name))
		}
	}
	if len(namespaces) > maxNamespaces {
		errs = append(errs, fmt.Errorf("%s: namespaces: the list has %d names, which is too many; remove the key, %s", kind, len(namespaces), all))
	}
	return errs
}

// CheckSelector returns an error if the text is not a label selector.
func CheckSelector(text string) error {
	_, err := labels.Parse(text)
	return err //nolint:wrapcheck // the caller names the setting
}
