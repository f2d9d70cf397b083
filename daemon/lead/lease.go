package lead

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"crowsnest/internal/kube"
)

const (
	// leaseGroup is the path of the API group of Leases.
	leaseGroup = "/apis/coordination.k8s.io/v1/namespaces/"
	// noteKey is the name of the annotation on the Lease for values for which the spec of a Lease has no fields.
	noteKey = "crowsnest/leader"
	// microTime is the format of times in a Lease.
	microTime = "2006-01-02T15:04:05.000000Z07:00"
)

// LeaseStore keeps the record in a Kubernetes Lease. The API server replaces a Lease only if the request contains its
// newest resource version. Therefore two processes cannot both succeed.
type LeaseStore struct {
	client          *kube.Client
	namespace, name string
	lease           time.Duration
}

// NewLeaseStore returns a store that uses a Lease. The first write creates the Lease if it does not exist. lease is the
// duration in the spec of the Lease, which is only for people.
func NewLeaseStore(client *kube.Client, namespace, name string, lease time.Duration) *LeaseStore {
	return &LeaseStore{client, namespace, name, lease}
}

// Where returns the name of the Lease.
func (s *LeaseStore) Where() string { return "Lease " + s.namespace + "/" + s.name }

type lease struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   leaseMeta `json:"metadata"`
	Spec       leaseSpec `json:"spec"`
}

type leaseMeta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

type leaseSpec struct {
	Holder   string `json:"holderIdentity,omitempty"`
	Duration int    `json:"leaseDurationSeconds,omitempty"`
	Acquired string `json:"acquireTime,omitempty"`
	Renewed  string `json:"renewTime,omitempty"`
	Turns    int    `json:"leaseTransitions"`
}

type note struct {
	URL     string   `json:"url"`
	Current []string `json:"current"`
	Version int      `json:"version"`
}

func (s *LeaseStore) path() string {
	return leaseGroup + url.PathEscape(s.namespace) + "/leases/" + url.PathEscape(s.name)
}

// Get reads the record from the Lease.
func (s *LeaseStore) Get(ctx context.Context) (Record, string, error) {
	var l lease
	err := s.client.Get(ctx, s.path(), nil, &l)
	switch {
	case kube.StatusCode(err) == http.StatusNotFound:
		return Record{}, "", nil
	case err != nil:
		return Record{}, "", s.explainError("read", err)
	}
	var n note
	_ = json.Unmarshal([]byte(l.Metadata.Annotations[noteKey]), &n) // without the annotation, the list of current disks is empty
	since, _ := time.Parse(microTime, l.Spec.Acquired)              // the time is only for people
	return Record{
		Holder: l.Spec.Holder, URL: n.URL, Current: n.Current, Version: n.Version,
		Since: since, Turns: l.Spec.Turns,
	}, l.Metadata.ResourceVersion, nil
}

// Put writes the record into the Lease. It creates the Lease if there is none.
func (s *LeaseStore) Put(ctx context.Context, rec Record, revision string) (string, error) {
	text, err := json.Marshal(note{rec.URL, rec.Current, rec.Version})
	if err != nil {
		return "", err
	}
	l := lease{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Metadata: leaseMeta{Name: s.name, Namespace: s.namespace, ResourceVersion: revision, Annotations: map[string]string{noteKey: string(text)}},
		Spec: leaseSpec{
			Holder: rec.Holder, Duration: max(1, int(s.lease.Seconds())), Acquired: rec.Since.UTC().Format(microTime),
			Renewed: time.Now().UTC().Format(microTime), Turns: rec.Turns,
		},
	}
	if revision == "" {
		err = s.client.Create(ctx, leaseGroup+url.PathEscape(s.namespace)+"/leases", l, &l)
	} else {
		err = s.client.Replace(ctx, s.path(), l, &l)
	}
	switch code := kube.StatusCode(err); {
	case code == http.StatusConflict || code == http.StatusNotFound && revision != "":
		return "", ErrConflict
	case err != nil:
		return "", s.explainError("write", err)
	}
	return l.Metadata.ResourceVersion, nil
}

func (s *LeaseStore) explainError(name string, err error) error {
	switch kube.StatusCode(err) {
	case http.StatusForbidden:
		return fmt.Errorf("%s %s: %w; allow get and update of this Lease, and create of leases, in its namespace", name, s.Where(), err)
	case http.StatusNotFound:
		return fmt.Errorf("%s %s: %w; create the namespace", name, s.Where(), err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s %s: the API server did not answer in time", name, s.Where())
	}
	return fmt.Errorf("%s %s: %w", name, s.Where(), err)
}
