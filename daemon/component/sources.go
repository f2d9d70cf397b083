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
	"crowsnest/sources/stdin"
)

// Sources returns the kinds of sources.
func Sources() []Kind {
	return []Kind{kubeletKind(), journalKind(), kubernetesKind(), objectsKind(), eventsKind(), filesKind(), stdinKind(), lokiKind(), agentsKind()}
}

func podLabels(more ...string) []string {
	return append(more, "namespace", "pod", "container", "filename")
}

func kubeletKind() Kind {
	return Kind{
		Key: "kubelet", Help: "Logs of the pods of this node, from its files.", Logs: true, Settings: kubelet.Config{}, Single: true,
		Losses: explainLosses("deleted", "gap", "gzip", "removed", "truncated", "unreadable_file"),
		Streams: func(p Part) []Labels {
			return []Labels{{Fixed: p.Settings.(*kubelet.Config).Labels, Free: podLabels()}}
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*kubelet.Config)
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod, c.SelfFolder = o.Namespace, o.Pod, o.PodFolder
			c.MaxOpenFiles = o.OpenFiles(c.MaxOpenFiles)
			return []sources.Source{kubelet.New(c)}
		},
	}
}

func journalKind() Kind {
	return Kind{
		Key: "journal", Help: "The systemd journal of this node, from its files.", Logs: true, Settings: journal.Config{}, Filtered: true,
		Losses: explainLosses("journal_damaged", "vacuumed"),
		Streams: func(p Part) []Labels {
			fixed, free := p.Settings.(*journal.Config).StreamLabels()
			return []Labels{{Fixed: fixed, Free: free}}
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*journal.Config)
			c.Name, c.Clock, c.LookBack, c.Node = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack), cmp.Or(c.Node, o.Node)
			return []sources.Source{journal.New(c)}
		},
	}
}

func kubernetesKind() Kind {
	return Kind{
		Key: "kubernetes", Help: "Logs of pods, through the Kubernetes API.", Logs: true, Settings: kubernetes.Config{},
		Losses: explainLosses("removed", "restarts"),
		Streams: func(p Part) []Labels {
			return []Labels{{Fixed: p.Settings.(*kubernetes.Config).Labels, Free: podLabels("node_name", "image", "app", "workload")}}
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*kubernetes.Config)
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			return []sources.Source{kubernetes.New(c)}
		},
	}
}

func objectsKind() Kind {
	return Kind{
		Key: "objects", Help: "Leases, conditions, deletions and phases of Kubernetes objects, as lines of a log.", Settings: objects.Config{},
		Losses: explainLosses("objects", "parts"),
		Streams: func(p Part) (out []Labels) {
			c := p.Settings.(*objects.Config)
			for _, component := range c.Components() {
				fixed := map[string]string{}
				maps.Copy(fixed, c.Labels)
				fixed["component"] = component
				out = append(out, Labels{Fixed: fixed, Free: []string{"namespace"}})
			}
			return out
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*objects.Config)
			c.Name, c.Clock = p.Name, o.Clock
			return []sources.Source{objects.New(c)}
		},
	}
}

func eventsKind() Kind {
	return Kind{
		Key: "events", Help: "Kubernetes Events, as lines of a log.", Lines: true, Settings: objects.EventsConfig{},
		Losses: explainLosses("events_expired", "events_unreadable"),
		Streams: func(p Part) []Labels {
			fixed := map[string]string{}
			maps.Copy(fixed, p.Settings.(*objects.EventsConfig).Labels)
			fixed["component"] = "events"
			return []Labels{{Fixed: fixed, Free: []string{"namespace"}}}
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*objects.EventsConfig)
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			return []sources.Source{objects.NewEvents(c)}
		},
	}
}

func filesKind() Kind {
	return Kind{
		Key: "files", Help: "Files, by path and glob.", Logs: true, Settings: files.Config{},
		Losses: explainLosses("deleted", "gap", "gzip", "removed", "truncated", "unreadable_file"),
		Streams: func(p Part) (out []Labels) {
			for _, path := range p.Settings.(*files.Config).Paths {
				out = append(out, Labels{Fixed: path.Labels, Free: []string{"filename"}})
			}
			return out
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*files.Config)
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.MaxOpenFiles = o.OpenFiles(c.MaxOpenFiles)
			return []sources.Source{files.New(c)}
		},
	}
}

func stdinKind() Kind {
	return Kind{
		Key: "stdin", Help: "Lines on standard input.", Logs: true, Settings: stdin.Config{}, Single: true,
		Streams: func(p Part) []Labels { return []Labels{{Fixed: p.Settings.(*stdin.Config).Labels}} },
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*stdin.Config)
			c.Name, c.Clock, c.Reader = p.Name, o.Clock, o.Stdin
			return []sources.Source{stdin.New(c)}
		},
	}
}

func lokiKind() Kind {
	return Kind{
		Key: "loki", Help: "Streams in Loki; only lines that a rule may match are queried.", Settings: loki.Config{}, Filtered: true,
		Losses:  explainLosses("outage", "ties", "too_large", "unreadable"),
		Streams: func(p Part) []Labels { return []Labels{{Any: true, Ignored: p.Settings.(*loki.Config).IgnoreLabels}} },
		Names: func(p Part) (out []string) {
			for _, s := range p.Kind.Sources(p, SourceOptions{}) {
				out = append(out, s.Name())
			}
			return out
		},
		Sources: func(p Part, o SourceOptions) (out []sources.Source) {
			c := *p.Settings.(*loki.Config)
			c.Name, c.Clock, c.LookBack = p.Name, o.Clock, cmp.Or(c.LookBack, o.LookBack)
			c.SelfNamespace, c.SelfPod = o.Namespace, o.Pod
			for _, s := range loki.New(c) { // one for each tenant
				out = append(out, s)
			}
			return out
		},
	}
}

func agentsKind() Kind {
	return Kind{
		Key: "agents", Help: "Hits that agents find on the nodes: this process is their aggregator.", Settings: server.Config{}, Single: true, Filtered: true,
		Losses: explainLosses("agent_gap"),
		Streams: func(Part) []Labels {
			return []Labels{{Free: podLabels("node_name", "node", "job", "unit", "identifier", "transport")}}
		},
		Sources: func(p Part, o SourceOptions) []sources.Source {
			c := *p.Settings.(*server.Config)
			c.Name, c.Clock, c.Leads = p.Name, o.Clock, o.Leads
			return []sources.Source{server.New(c)}
		},
	}
}
