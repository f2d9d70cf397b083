package alertmanager

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/alertmanager/api/v2/models"

	"crowsnest/sinks/internal/delivery"
)

// States of an Alertmanager's cluster.
const (
	clusterDisabled = "disabled" // the member has no peers
	clusterSettling = "settling" // the member waits for notifications of its peers
)

// status is the part of an Alertmanager's status that is used.
type status struct {
	date time.Time // time on its clock, truncated to seconds; zero if not given
	// uptime is the start time of its process, by its clock and to the millisecond. It
	// identifies the process, and does not change when a clock is set. Zero means that it was
	// not given.
	uptime time.Time
	// earliest and latest limit the start time of the process by our clock.
	earliest, latest time.Time
	alone, settling  bool     // whether the member has no peers, and whether it waits for their notifications
	members          []string // names of the members of its cluster, including its own
}

// status asks the Alertmanager for its status. The answer has an error if there was no response
// in time. Fields that the response lacks are zero.
func (c *client) status(ctx context.Context, within time.Duration) (status, delivery.Answer) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v2/status", nil)
	if err != nil {
		return status{}, delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	h, err := c.http.Client()
	if err != nil {
		return status{}, delivery.Answer{Reason: delivery.ReasonConfig, Err: err}
	}
	asked := c.now()
	resp, err := h.Do(req)
	if err != nil {
		return status{}, delivery.ConnectionFailed(err)
	}
	defer resp.Body.Close()
	return readStatus(resp, asked, c.now()), delivery.Answer{Code: resp.StatusCode}
}

func readStatus(resp *http.Response, asked, answered time.Time) (out status) {
	out.date, _ = http.ParseTime(resp.Header.Get("Date"))
	var said models.AlertmanagerStatus
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&said) != nil {
		return out
	}
	if c := said.Cluster; c != nil && c.Status != nil {
		out.alone, out.settling = *c.Status == clusterDisabled, *c.Status == clusterSettling
		for _, p := range c.Peers {
			if p != nil && p.Name != nil {
				out.members = append(out.members, *p.Name)
			}
		}
	}
	if said.Uptime != nil && !out.date.IsZero() {
		out.uptime = time.Time(*said.Uptime).UTC()
		age := out.date.Sub(out.uptime)
		out.earliest, out.latest = asked.Add(-age-time.Second), answered.Add(-age)
	}
	return out
}
