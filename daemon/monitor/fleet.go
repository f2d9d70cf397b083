package monitor

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/episodes"
	"crowsnest/internal/text"
	"crowsnest/sources/fleet"
)

const alertClustersUnknown = "CrowsnestClustersUnknown"

// clusterNames bounds the clusters that the alert names.
const clusterNames = 20

// clustersAlert returns an alert if clusters of a fleet view have not been up for after.
func clustersAlert(now time.Time, after time.Duration, clusters []fleet.Cluster) []episodes.Episode {
	var named []string
	since := now
	for _, c := range clusters {
		if c.State == fleet.Up || now.Sub(c.Since) < after {
			continue
		}
		named = append(named, fmt.Sprintf("%s since %s (%s)", c.Name, stamp(c.Since), text.Shorten(c.Error, maxClusterError)))
		if c.Since.Before(since) {
			since = c.Since
		}
	}
	if len(named) == 0 {
		return nil
	}
	return []episodes.Episode{alert(alertClustersUnknown, "warning", map[string]string{"source": "fleet"}, since, texts{
		fmt.Sprintf("The state of %d of %d clusters is not known", len(named), len(clusters)),
		strings.ReplaceAll(firstOf(named, clusterNames), "), ", ")\n"),
		"Check that the daemon of each cluster runs, that this process reaches its address with the right credentials, and that its external_labels agree with the name of the target. docs/fleet.md has more.",
	})}
}

// maxClusterError bounds the error of a cluster, in bytes.
const maxClusterError = 200
