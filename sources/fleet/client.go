package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"crowsnest/httpconfig"
	"crowsnest/rules/versions"
)

// asked are the parameters of episodes: everything that fires but the heartbeat, which
// always does.
var asked = url.Values{"state": {"firing"}, "match[]": {`alertname!="CrowsnestHeartbeat"`}}

// running reads the annotation about affected versions.
func running(affected string) (verdict, version string) { return versions.Read(affected) }

// daemon polls one daemon. It is not safe for concurrent use.
type daemon struct {
	target
	client  *http.Client
	max     int64  // bytes of an answer
	etag    string // of episodes that are known
	counted *tally // with that tag
	started time.Time
	version string
}

// answer is what a poll found.
type answer struct {
	*tally
	version string
	link    string
	cluster string // the label cluster that the daemon adds to its alerts; "": none
	bytes   int64
	same    bool // the alerts are those of the answer before
}

// refused is an answer that cannot be used.
type refused struct{ error }

// runtime is what is used of the state of the process.
type runtime struct {
	Start    time.Time         `json:"startTime"`
	External map[string]string `json:"externalLabels"`
	URL      string            `json:"externalURL"`
}

// poll asks the daemon. An error says what to look at.
func (d *daemon) poll(ctx context.Context) (answer, error) {
	var info runtime
	n, err := d.data(ctx, "status/runtimeinfo", &info)
	if err != nil {
		return answer{}, err
	}
	if d.version == "" || !info.Start.Equal(d.started) {
		var build struct{ Version string }
		more, err := d.data(ctx, "status/buildinfo", &build)
		if err != nil {
			return answer{}, err
		}
		n += more
		d.version, d.started = clean(build.Version, maxVersion), info.Start
	}
	counted, more, err := d.alerts(ctx)
	if err != nil {
		return answer{}, err
	}
	out := answer{tally: counted, version: d.version, link: shown(d.base), cluster: clean(info.External["cluster"], maxName), bytes: n + more, same: counted == d.counted}
	if u, err := parseAddress(info.URL); err == nil && u.User == nil && u.RawQuery == "" {
		out.link = u.String()
	}
	d.counted = counted
	return out, nil
}

// request returns an answer with one of the status codes 200 and 304.
func (d *daemon) request(ctx context.Context, path string, query url.Values, etag string) (*http.Response, error) {
	u := d.base.JoinPath("/api/v1/", path)
	if len(query) > 0 {
		u.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("its address cannot be used")
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := d.client.Do(req)
	if err != nil {
		late, err := httpconfig.Unanswered(err)
		if late {
			return nil, errors.New("no answer in time")
		}
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusNotModified && etag != "" {
		return res, nil
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	res.Body.Close()                             //nolint:errcheck // nothing more is read
	return nil, fmt.Errorf("it answers %s%s", clean(res.Status, maxVersion), fixOf(res.StatusCode))
}

// fixOf returns what to do about a status code.
func fixOf(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": check the credentials in http_config"
	case http.StatusMisdirectedRequest:
		return ": start it with --web.allowed-host for the name in the address"
	case http.StatusNotFound:
		return ": the address is not that of a crowsnest daemon"
	}
	return ""
}

// data decodes the data of an endpoint, and returns the bytes of the answer.
func (d *daemon) data(ctx context.Context, path string, into any) (int64, error) {
	res, err := d.request(ctx, path, nil, "")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := bounded(res.Body, 1<<20)
	if err != nil {
		return 0, unread(err)
	}
	envelope := struct {
		Status string
		Data   any
	}{Data: into}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Status != "success" {
		return 0, errForeign
	}
	return int64(len(body)), nil
}

// alerts returns the firing alerts; the tally of before if they are the same.
func (d *daemon) alerts(ctx context.Context) (*tally, int64, error) {
	res, err := d.request(ctx, "episodes", asked, d.etag)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotModified {
		return d.counted, 0, nil
	}
	body := &counter{r: io.LimitReader(res.Body, d.max+1)}
	out, err := tallied(json.NewDecoder(body))
	switch {
	case body.n > d.max:
		return nil, 0, refused{fmt.Errorf("the answer has more than %d MiB; raise max_answer_mib, or find out why so many alerts are open there", d.max>>20)}
	case err != nil:
		return nil, 0, unread(err)
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // the end of the answer
	d.etag = ""
	if tag := res.Header.Get("ETag"); len(tag) <= maxVersion {
		d.etag = tag
	}
	return out, body.n, nil
}

// unread returns the error of an answer that broke off or has another form.
func unread(err error) error {
	if _, is := errors.AsType[refused](err); is {
		return err
	}
	var syntax *json.SyntaxError
	var form *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &form) {
		return errForeign
	}
	late, err := httpconfig.Unanswered(err)
	if late {
		return errors.New("no complete answer in time")
	}
	return fmt.Errorf("the answer broke off: %w", err)
}
