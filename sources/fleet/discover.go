package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"crowsnest/httpconfig"
)

const (
	maxDiscovery = 8 << 20 // bytes of a list of targets
	maxListed    = 20_000  // targets of a list
)

// found is a target that discovery returned.
type found struct {
	target
	err error // why it is none that can be polled
}

// target is a daemon to poll.
type target struct {
	cluster string
	base    *url.URL
}

// group is an element of a list of targets, as Prometheus defines it.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// parseGroups reads a list of targets: JSON, or YAML if it is not asJSON.
func parseGroups(data []byte, asJSON bool) ([]group, error) {
	var out []group
	var err error
	if asJSON {
		err = json.Unmarshal(data, &out)
	} else {
		err = yaml.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("not a list of targets: %w", err)
	}
	n := 0
	for _, g := range out {
		n += len(g.Targets)
	}
	if n > maxListed {
		return nil, fmt.Errorf("%d targets, allowed are %d", n, maxListed)
	}
	return out, nil
}

// targets returns the targets of groups. label names their clusters.
func targets(groups []group, label string) []found {
	var out []found
	for _, g := range groups {
		for _, address := range g.Targets {
			base, err := addressOf(address, g.Labels)
			f := found{target{g.Labels[label], base}, err}
			switch {
			case err != nil:
				f.err = fmt.Errorf("discovery: the target %.100q %w", redacted(address), err)
			case f.cluster == "":
				f.err = fmt.Errorf("discovery: the target %.100q has no label %s, so its cluster is not known", redacted(address), label)
			case checkName(f.cluster) != nil:
				f.err = fmt.Errorf("discovery: the label %s of the target %.100q %w", label, redacted(address), checkName(f.cluster))
			}
			if f.err != nil {
				f.cluster = clean(cmp.Or(f.cluster, redacted(address)), maxName)
			}
			out = append(out, f)
		}
	}
	return out
}

// addressOf returns the base address of a target: host and port, with the labels
// __scheme__ and __crowsnest_path__, or a complete address.
func addressOf(address string, labels map[string]string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = cmp.Or(labels[model.SchemeLabel], "http") + "://" + address + labels["__crowsnest_path__"]
	}
	return parseAddress(address)
}

// redacted returns an address without its password and its query.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		if strings.Contains(address, "@") {
			return "(hidden)"
		}
		return address
	}
	u.RawQuery = ""
	return u.Redacted()
}

// readFiles returns the groups of all files. One that cannot be read fails all: the files
// of a moment ago are better than some of them.
func (sd *FileSD) read() ([]group, error) {
	var out []group
	for _, glob := range sd.Files {
		paths, err := filepath.Glob(glob)
		if err != nil {
			return nil, fmt.Errorf("file_sd: %w", err)
		}
		if len(paths) == 0 && !strings.ContainsAny(glob, "*?[") {
			return nil, fmt.Errorf("file_sd: there is no file %s", glob)
		}
		slices.Sort(paths)
		for _, path := range paths {
			groups, err := readFile(path)
			if err != nil {
				return nil, fmt.Errorf("file_sd: %s: %w", path, err)
			}
			out = append(out, groups...)
		}
	}
	return out, nil
}

func readFile(path string) ([]group, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	data, err := bounded(f, maxDiscovery)
	if err != nil {
		return nil, err
	}
	return parseGroups(data, filepath.Ext(path) == ".json")
}

// bounded reads all of r, which may have at most n bytes.
func bounded(r io.Reader, n int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, n+1))
	if err == nil && int64(len(data)) > n {
		err = fmt.Errorf("more than %d MiB", n>>20)
	}
	return data, err
}

// ask returns the groups of an HTTP service discovery.
func (sd *HTTPSD) ask(ctx context.Context, client *http.Client) ([]group, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, sd.URL, nil)
	if err != nil {
		return nil, errors.New("http_sd: the address cannot be used")
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		_, err = httpconfig.Unanswered(err)
		return nil, fmt.Errorf("http_sd: no answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("http_sd: the answer is %s", clean(res.Status, maxVersion))
	}
	data, err := bounded(res.Body, maxDiscovery)
	if err != nil {
		return nil, fmt.Errorf("http_sd: %w", err)
	}
	groups, err := parseGroups(data, true)
	if err != nil {
		return nil, fmt.Errorf("http_sd: %w", err)
	}
	return groups, nil
}
