package kube

import (
	"fmt"
	"slices"

	"crowsnest/internal/lazyre"
)

// maxNamespaces is the largest number of namespaces that a source watches one by one.
const maxNamespaces = 50

var namespaceName = lazyre.New(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// CheckNamespaces returns the errors in the setting namespaces of a source of this kind.
// instead is the advice for a value that is not a name. all says what removing the setting
// does.
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
		errs = append(errs, fmt.Errorf("%s: namespaces: %d are too many; remove the key, %s", kind, len(namespaces), all))
	}
	return errs
}
