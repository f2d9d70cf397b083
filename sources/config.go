package sources

import (
	"cmp"
	"time"
)

// Common are the settings of every source.
type Common struct {
	// Name is the source's name if there are several of the kind. Default: the kind.
	Name string `yaml:"name" bounds:"0,4096"`
	// Clock replaces time.Now in tests.
	Clock func() time.Time `yaml:"-"`
}

// WithDefaults returns the settings of a source of a kind. The name is never empty, and the clock is never nil.
func (c Common) WithDefaults(kind string) Common {
	c.Name = cmp.Or(c.Name, kind)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// OwnPod names the pod in which this program runs. The log of this pod is never read, because it contains lines that
// the program has already matched.
type OwnPod struct {
	SelfNamespace string `yaml:"-"` // namespace of the pod; empty if it is not known
	SelfPod       string `yaml:"-"` // name of the pod; empty if this program runs in no pod
}

// IsOwn reports whether a pod is the pod in which this program runs.
func (o OwnPod) IsOwn(namespace, pod string) bool {
	return o.SelfPod != "" && pod == o.SelfPod && (o.SelfNamespace == "" || namespace == o.SelfNamespace)
}
