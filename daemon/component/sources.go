package component

import (
	"cmp"
	"maps"

	"crowsnest/agent/server"
	"crowsnest/sources"
	"crowsnest/sources/files"
	"crowsnest/sources/journal"
	"crowsnest/sources/kubelet"
	"crowsnest/sources/kubernetes"
	"crowsnest/sources/loki"
	"crowsnest/sources/objects"
	"crowsnest/sources/otlp"
	"crowsnest/sources/stdin"
	"crowsnest/sources/victorialogs"
)

// Sources returns the kinds of sources.
func Sources() []Kind { return append(clusterSources(), otherSources()...) }

// sourceKind completes a kind with settings of type C. streams returns the labels of the streams. build constructs the
// sources of a component from a copy of its settings.
func sourceKind[C any](k Kind, streams func(*C) []Labels, build func(C, Part, SourceOptions) []sources.Source) Kind {
	k.Settings = *new(C)
	k.Streams = func(p Part) []Labels { return streams(p.Settings.(*C)) }
	k.Sources = func(p Part, o SourceOptions) []sources.Source { return build(*p.Settings.(*C), p, o) }
	return k
}

func podLabels(more ...string) []string {
	return append(more, "namespace", "pod", "container", "filename")
}

// clusterSources returns the sources of one cluster, from its nodes or its API.
func clusterSources() []Kind {
	return []Kind{
		sourceKind(Kind{
			Key: "kubelet", Help: "Logs of the pods of this node, from its files.", Logs: true, Single: true,
			Losses: explainLosses("deleted", "gap", "gzip", "removed", "truncated", "unreadable_file"),
		}, func(c *kubelet.Config) []Labels {
			return []Labels{{Fixed: c.Labels, Free: podLabels()}}
		}, func(c kubelet.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod, c.SelfFolder = o.Namespace, o.Pod, o.PodFolder
			c.MaxOpenFiles = o.OpenFiles(c.MaxOpenFiles)
			return []sources.Source{kubelet.New(c)}
		}),
		sourceKind(Kind{
			Key: "journal", Help: "The systemd journal of this node, from its files.", Logs: true, Filtered: true,
			Losses: explainLosses("journal_damaged", "vacuumed"),
		}, func(c *journal.Config) []Labels {
			fixed, free := c.StreamLabels()
			return []Labels{{Fixed: fixed, Free: free}}
		}, func(c journal.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack, c.Node = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack), cmp.Or(c.Node, o.Node)
			return []sources.Source{journal.New(c)}
		}),
		sourceKind(Kind{
			Key: "kubernetes", Help: "Logs of pods, through the Kubernetes API.", Logs: true,
			Losses: explainLosses("removed", "restarts"),
		}, func(c *kubernetes.Config) []Labels {
			return []Labels{{Fixed: c.Labels, Free: podLabels("node_name", "image", "app", "workload")}}
		}, func(c kubernetes.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			return []sources.Source{kubernetes.New(c)}
		}),
		sourceKind(Kind{
			Key: "objects", Help: "Leases, conditions, deletions and phases of Kubernetes objects, as lines of a log.",
			Losses: explainLosses("objects", "parts"),
		}, func(c *objects.Config) (out []Labels) {
			for _, component := range c.Components() {
				out = append(out, componentLabels(c.Labels, component))
			}
			return out
		}, func(c objects.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock = p.Name, o.Clock
			return []sources.Source{objects.New(c)}
		}),
		sourceKind(Kind{
			Key: "events", Help: "Kubernetes Events, as lines of a log.", Lines: true,
			Losses: explainLosses("events_expired", "events_unreadable"),
		}, func(c *objects.EventsConfig) []Labels {
			return []Labels{componentLabels(c.Labels, "events")}
		}, func(c objects.EventsConfig, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			return []sources.Source{objects.NewEvents(c)}
		}),
	}
}

// componentLabels returns the stream labels of a source that sets the label component.
func componentLabels(own map[string]string, component string) Labels {
	fixed := map[string]string{}
	maps.Copy(fixed, own)
	fixed["component"] = component
	return Labels{Fixed: fixed, Free: []string{"namespace"}}
}

func otherSources() []Kind {
	byTenant := func(k Kind) Kind {
		k.Names = func(p Part) (out []string) {
			for _, s := range p.Kind.Sources(p, SourceOptions{}) {
				out = append(out, s.Name())
			}
			return out
		}
		return k
	}
	return []Kind{
		sourceKind(Kind{
			Key: "files", Help: "Files, by path and glob.", Logs: true,
			Losses: explainLosses("deleted", "gap", "gzip", "removed", "truncated", "unreadable_file"),
		}, func(c *files.Config) (out []Labels) {
			for _, path := range c.Paths {
				out = append(out, Labels{Fixed: path.Labels, Free: []string{"filename"}})
			}
			return out
		}, func(c files.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.MaxOpenFiles = o.OpenFiles(c.MaxOpenFiles)
			return []sources.Source{files.New(c)}
		}),
		sourceKind(Kind{Key: "stdin", Help: "Lines on standard input.", Logs: true, Single: true},
			func(c *stdin.Config) []Labels { return []Labels{{Fixed: c.Labels}} },
			func(c stdin.Config, p Part, o SourceOptions) []sources.Source {
				c.Name, c.Clock, c.Reader = p.Name, o.Clock, o.Stdin
				return []sources.Source{stdin.New(c)}
			}),
		byTenant(sourceKind(Kind{
			Key: "loki", Help: "Streams in Loki; only lines that a rule may match are queried.", Filtered: true,
			Losses: explainLosses("outage", "ties", "too_large", "unreadable"),
		}, func(c *loki.Config) []Labels {
			return []Labels{{Any: true, Ignored: c.IgnoreLabels}}
		}, func(c loki.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			return ofTenants(loki.New(c))
		})),
		byTenant(sourceKind(Kind{
			Key: "victorialogs", Help: "Streams in VictoriaLogs; only lines that a rule may match are queried, unless fields is set.", Filtered: true,
			Losses: explainLosses("outage", "ties", "too_large", "unreadable"),
		}, func(c *victorialogs.Config) []Labels {
			return []Labels{{Any: true, Ignored: c.IgnoreLabels}}
		}, func(c victorialogs.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			return ofTenants(victorialogs.New(c))
		})),
		sourceKind(Kind{
			Key: "otlp", Help: "Log records that OpenTelemetry collectors send, by OTLP over HTTP.", Single: true,
			Losses: explainLosses("refused"),
		}, func(c *otlp.Config) []Labels {
			return []Labels{{Free: c.StreamLabels()}}
		}, func(c otlp.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.Leads = p.Name, o.Clock, o.Leads
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			return []sources.Source{otlp.New(c)}
		}),
		sourceKind(Kind{
			Key: "agents", Help: "Hits that agents find on the nodes. This process is their aggregator.", Single: true, Filtered: true,
			Losses: explainLosses("agent_gap"),
		}, func(*server.Config) []Labels {
			return []Labels{{Free: podLabels("node_name", "node", "job", "unit", "identifier", "transport")}}
		}, func(c server.Config, p Part, o SourceOptions) []sources.Source {
			c.Name, c.Clock, c.Leads = p.Name, o.Clock, o.Leads
			return []sources.Source{server.New(c)}
		}),
	}
}

func ofTenants[S sources.Source](all []S) (out []sources.Source) {
	for _, s := range all {
		out = append(out, s)
	}
	return out
}
