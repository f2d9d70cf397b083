package main

// The parts of Grafana's dashboard format that are used here, in the order in which
// Grafana itself writes them.

type dashboard struct {
	Description   string     `json:"description"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: shared crosshair
	Links         []any      `json:"links"`
	Panels        []panel    `json:"panels"`
	Refresh       string     `json:"refresh"`
	SchemaVersion int        `json:"schemaVersion"`
	Tags          []string   `json:"tags"`
	Templating    templating `json:"templating"`
	Time          timeRange  `json:"time"`
	Timezone      string     `json:"timezone"`
	Title         string     `json:"title"`
	UID           string     `json:"uid"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	AllValue   string     `json:"allValue,omitempty"`
	Current    current    `json:"current"`
	Datasource *reference `json:"datasource,omitempty"`
	IncludeAll bool       `json:"includeAll"`
	Label      string     `json:"label"`
	Multi      bool       `json:"multi"`
	Name       string     `json:"name"`
	Query      any        `json:"query"`
	Refresh    int        `json:"refresh,omitempty"` // 2: when the time range changes
	Sort       int        `json:"sort,omitempty"`    // 1: alphabetically
	Type       string     `json:"type"`
}

type current struct {
	Text  any `json:"text,omitempty"`
	Value any `json:"value,omitempty"`
}

type reference struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	Collapsed       *bool        `json:"collapsed,omitempty"` // of a row
	Datasource      *reference   `json:"datasource,omitempty"`
	Description     string       `json:"description,omitempty"`
	FieldConfig     *fieldConfig `json:"fieldConfig,omitempty"`
	GridPos         position     `json:"gridPos"`
	ID              int          `json:"id"`
	Options         any          `json:"options,omitempty"`
	Panels          []panel      `json:"panels,omitempty"` // of a collapsed row
	Targets         []target     `json:"targets,omitempty"`
	Title           string       `json:"title"`
	Transformations []any        `json:"transformations,omitempty"`
	Type            string       `json:"type"`
}

type position struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	Datasource   reference `json:"datasource"`
	Expr         string    `json:"expr"`
	Format       string    `json:"format"`
	Instant      bool      `json:"instant"`
	LegendFormat string    `json:"legendFormat"`
	Range        bool      `json:"range"`
	RefID        string    `json:"refId"`
}

type fieldConfig struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Color      *color      `json:"color,omitempty"`
	Custom     any         `json:"custom,omitempty"`
	Mappings   []any       `json:"mappings"`
	NoValue    string      `json:"noValue,omitempty"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
	Unit       string      `json:"unit,omitempty"`
}

type color struct {
	Mode string `json:"mode"`
}

type thresholds struct {
	Mode  string      `json:"mode"`
	Steps []threshold `json:"steps"`
}

type threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // nil: from the beginning
}

var source = reference{Type: "prometheus", UID: "${datasource}"}

// query is one expression of a panel and the legend of its series.
type query struct{ expr, legend string }

// of is a panel under construction.
func of(kind, title, description string, size position, queries ...query) panel {
	p := panel{
		Type: kind, Title: title, Description: description, GridPos: size, Datasource: &source,
		FieldConfig: &fieldConfig{Defaults: defaults{Mappings: []any{}}, Overrides: []any{}},
	}
	for i, q := range queries {
		p.Targets = append(p.Targets, target{
			Datasource: source, Expr: q.expr, LegendFormat: q.legend, RefID: string(rune('A' + i)), Format: "time_series", Range: true,
		})
	}
	return p
}

// graph is a time series. A stacked one shows parts of a sum.
func graph(title, description, unit string, stacked bool, queries ...query) panel {
	p := of("timeseries", title, description, position{W: 12, H: 8}, queries...)
	p.FieldConfig.Defaults.Unit = unit
	custom := map[string]any{"fillOpacity": 0, "lineWidth": 1, "showPoints": "never"}
	if stacked {
		custom = map[string]any{"fillOpacity": 30, "lineWidth": 1, "showPoints": "never", "stacking": map[string]any{"group": "A", "mode": "normal"}}
	}
	p.FieldConfig.Defaults.Custom = custom
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// alarm is the color of a number from a limit upwards; below it is green.
type alarm struct {
	limit float64
	color string
}

// stat is one number.
func stat(title, description, unit, expr string, a alarm) panel {
	p := of("stat", title, description, position{W: 4, H: 4}, query{expr, ""})
	p.FieldConfig.Defaults.Unit = unit
	p.Targets[0].Instant, p.Targets[0].Range = true, false
	p.FieldConfig.Defaults.NoValue = "0"
	p.FieldConfig.Defaults.Color = &color{"thresholds"}
	p.FieldConfig.Defaults.Thresholds = &thresholds{"absolute", []threshold{{"green", nil}, {a.color, &a.limit}}}
	p.Options = map[string]any{
		"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "textMode": "auto",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}
	return p
}

// table lists the current values of an expression, the largest first.
func table(title, description, unit, expr, value string) panel {
	p := of("table", title, description, position{W: 12, H: 8}, query{expr, ""})
	p.FieldConfig.Defaults.Unit = unit
	p.Targets[0].Instant, p.Targets[0].Range, p.Targets[0].Format = true, false, "table"
	p.FieldConfig.Defaults.NoValue = "none"
	p.Options = map[string]any{"cellHeight": "sm", "showHeader": true, "sortBy": []any{map[string]any{"displayName": value, "desc": true}}}
	p.Transformations = []any{map[string]any{"id": "organize", "options": map[string]any{
		"excludeByName": map[string]bool{"Time": true}, "renameByName": map[string]string{"Value": value},
	}}}
	return p
}

// text shows Markdown.
func text(title, markdown string, w, h int) panel {
	return panel{Type: "text", Title: title, GridPos: position{W: w, H: h}, Options: map[string]any{"mode": "markdown", "content": markdown}}
}

// row begins a row of panels; a folded one is opened by a click.
func row(title string, folded bool, panels ...panel) panel {
	return panel{Type: "row", Title: title, Collapsed: &folded, Panels: panels}
}

// layout places the panels of rows from left to right and numbers them. Grafana expects
// the panels of an open row beside it, and those of a folded row inside.
func layout(rows []panel) []panel {
	var out []panel
	id, y := 0, 0
	for _, r := range rows {
		id++
		r.ID, r.GridPos = id, position{H: 1, W: 24, Y: y}
		y++
		x, height := 0, 0
		for i := range r.Panels {
			p := &r.Panels[i]
			if x+p.GridPos.W > 24 {
				x, y, height = 0, y+height, 0
			}
			id++
			p.ID, p.GridPos.X, p.GridPos.Y = id, x, y
			x, height = x+p.GridPos.W, max(height, p.GridPos.H)
		}
		y += height
		inside := r.Panels
		if !*r.Collapsed {
			r.Panels = nil
			out = append(append(out, r), inside...)
			continue
		}
		out = append(out, r)
	}
	return out
}

// newDashboard returns a dashboard with the variables that all have.
func newDashboard(name, title, description string, more []variable, rows ...panel) dashboard {
	variables := []variable{
		{Type: "datasource", Name: "datasource", Label: "Data source", Query: "prometheus"},
		// The value of "All" also matches series without the label.
		{
			Type: "query", Name: "cluster", Label: "Cluster", Query: "label_values(crowsnest_build_info, cluster)", Datasource: &source,
			IncludeAll: true, AllValue: ".*", Multi: true, Refresh: 2, Sort: 1, Current: current{"All", "$__all"},
		},
	}
	return dashboard{
		UID: "crowsnest-" + name, Title: "crowsnest / " + title, Description: description, Tags: []string{"crowsnest"},
		SchemaVersion: 39, GraphTooltip: 1, Refresh: "30s", Timezone: "utc", Time: timeRange{"now-6h", "now"},
		Links: []any{map[string]any{
			"title": "crowsnest", "type": "dashboards", "tags": []string{"crowsnest"}, "asDropdown": true, "includeVars": true, "keepTime": true,
		}},
		Templating: templating{append(variables, more...)}, Panels: layout(rows),
	}
}
