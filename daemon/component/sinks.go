package component

import (
	"crowsnest/agent/client"
	"crowsnest/sinks"
	"crowsnest/sinks/alertmanager"
	"crowsnest/sinks/loki"
	"crowsnest/sinks/stdout"
	"crowsnest/sinks/webhook"
)

// Sinks returns the kinds of sinks.
func Sinks() []Kind {
	return []Kind{{
		Key: "alertmanager", Help: "Alerts to every member of an Alertmanager cluster.", Settings: alertmanager.Config{},
		Sink: func(p Part, o SinkOptions) (sinks.Sink, error) {
			c := *p.Settings.(*alertmanager.Config)
			c.Name = p.Name
			o.Into(&c.ExternalLabels, &c.ExternalURL)
			return alertmanager.New(c, alertmanager.Options{Log: o.Log, Latency: o.Latency, MaxKeys: o.MaxKeys, Now: o.Now, OnAccepted: func() { o.OnAccepted(false) }, Leads: o.Leads})
		},
	}, {
		Key: "loki", Help: "The history of alerts as lines in Loki.", Settings: loki.Config{},
		Sink: func(p Part, o SinkOptions) (sinks.Sink, error) {
			c := *p.Settings.(*loki.Config)
			c.Name = p.Name
			o.Into(&c.ExternalLabels, &c.ExternalURL)
			return loki.New(c, loki.Options{Log: o.Log, MaxKeys: o.MaxKeys, Now: o.Now, OnAccepted: func() { o.OnAccepted(true) }, Leads: o.Leads})
		},
	}, {
		Key: "webhook", Help: "Alerts as JSON to any HTTP server.", Unique: true, Settings: webhook.Config{},
		Sink: func(p Part, o SinkOptions) (sinks.Sink, error) {
			c := *p.Settings.(*webhook.Config)
			c.Name = p.Name
			o.Into(&c.ExternalLabels, &c.ExternalURL)
			return webhook.New(c, webhook.Options{Log: o.Log, MaxKeys: o.MaxKeys, Now: o.Now, OnAccepted: func() { o.OnAccepted(true) }, Leads: o.Leads})
		},
	}, {
		Key: "stdout", Help: "Alerts as lines on standard output.", Settings: stdout.Config{}, Single: true,
		Sink: func(p Part, o SinkOptions) (sinks.Sink, error) {
			c := *p.Settings.(*stdout.Config)
			c.Name, c.Color, c.MaxKeys, c.Now = p.Name, o.Color, o.MaxKeys, o.Now
			o.Into(&c.ExternalLabels, new(string))
			c.StateChanged = func(err error) {
				if err != nil {
					o.Log.Warn().Str("component", "sink").Err(err).Msg("alerts cannot be written to standard output; everything else continues")
					return
				}
				o.Log.Info().Str("component", "sink").Msg("alerts can be written to standard output again")
			}
			return stdout.New(c, o.Stdout)
		},
	}, {
		Key: "upstream", Help: "Hits to an aggregator. This process is an agent.", Settings: client.Config{}, Single: true,
	}}
}
