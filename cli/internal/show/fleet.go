package show

import (
	"fmt"
	"strings"
	"time"

	"crowsnest/web"
)

// severities are the columns of open alerts, the most severe first.
var severities = []string{"critical", "warning", "info"}

// Fleet lists the answer of the endpoint fleet: the clusters, and the rules that are open
// in them.
func Fleet(data []byte, style ListStyle) ([]Table, error) {
	return decode(data, func(in web.Fleet) []Table {
		return []Table{fleetClusters(in, style), fleetRules(in, style)}
	})
}

func fleetClusters(in web.Fleet, style ListStyle) Table {
	t := Table{Head: []string{"CLUSTER", "STATE", "ANSWERED", "CRITICAL", "WARNING", "INFO", "RULES", "VERSION", "WHY"}}
	if style.Wide {
		t.Head = append(t.Head, "LINK")
	}
	for _, c := range in.Clusters {
		cells := []Cell{{Text: c.Name, Color: bold}, goodCell(c.State == "up", c.State)}
		var answered time.Time
		if c.Answered != nil {
			answered = *c.Answered
		}
		cells = append(cells, style.age(answered))
		for _, severity := range severities {
			text := fmt.Sprint(c.Open[severity])
			switch {
			case c.Answered == nil:
				text = "?"
			case c.Old():
				text += "?" // as last reported
			}
			cells = append(cells, plain(text))
		}
		cells = append(cells, number(c.Rules), plain(c.Version), plain(c.Error))
		if style.Wide {
			cells = append(cells, plain(c.Link))
		}
		t.Rows = append(t.Rows, Row{c.Name, cells})
	}
	return t
}

func fleetRules(in web.Fleet, style ListStyle) Table {
	t := Table{Head: []string{"RULE", "SEVERITY", "CLUSTERS", "AFFECTED", "AGE", "FIRST", "FLEET ALERT", "VERSIONS"}}
	if style.Wide {
		t.Head = append(t.Head, "IN")
	}
	for _, r := range in.Rules {
		clusters := fmt.Sprintf("%d of %d", len(r.Clusters), len(in.Clusters))
		alert := plain("-")
		if r.Alert != "" {
			alert = Cell{Text: r.Alert, Color: red}
		}
		var versions, names []string
		for _, v := range r.Versions {
			versions = append(versions, fmt.Sprintf("%s in %d", v.Version, v.Clusters))
		}
		for _, c := range r.Clusters {
			name := c.Cluster
			if c.Old {
				name += "?"
			}
			names = append(names, name)
		}
		cells := []Cell{{Text: r.Rule, Color: bold}, severityCell(r.Severity), plain(clusters), number(r.Affected), style.age(r.Since), plain(r.First), alert, plain(strings.Join(versions, ", "))}
		if style.Wide {
			cells = append(cells, plain(strings.Join(names, ",")))
		}
		t.Rows = append(t.Rows, Row{r.Rule, cells})
	}
	return t
}
