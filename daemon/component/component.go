// Package component lists the kinds of sources and sinks. The schema and the checks of the configuration file, the
// daemon, its alerts about itself and the documents are derived from these lists.
package component

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/sinks"
	"crowsnest/sources"
)

// Kind is a kind of source or sink.
type Kind struct {
	// Key is the kind's key below `sources` or `sinks` in the file, and its default name.
	Key string
	// Help is one sentence for the documents.
	Help string
	// Settings is an empty struct of the type of the settings, with the tags yaml and bounds. If the type has a method
	// Validate() error, its errors begin with a key and may end with "; " and a suggested fix. Settings whose key ends
	// in _file are paths of files that must be readable. These paths, and the paths in kubeconfig, are relative to the
	// configuration file.
	Settings any
	// Single means that the file can have only one component of this kind. Otherwise the file has a list.
	Single bool
	// Logs marks sources that read logs. Such a source is suspicious if it has never had a line, because every log has
	// lines. It is not set for Loki and VictoriaLogs, whose sources check themselves whether their streams have lines.
	Logs bool
	// Lines marks sources that do not read logs but are also suspicious if they have never had a line.
	Lines bool
	// Filtered marks sources that read only lines that a rule may match.
	Filtered bool
	// Streams returns the labels that streams of a source can have. A nil function means any labels.
	Streams func(Part) []Labels
	// Losses explains the possible reasons for lost lines.
	Losses Losses
	// Names returns the names of a component's sources. Nil means that the component has one source.
	Names func(Part) []string
	// Sources constructs the sources of a component. It does no I/O.
	Sources func(Part, SourceOptions) []sources.Source
	// Unique marks sinks whose receiver identifies an alert by its start, so that the same alert with another start
	// would be a new alert. Such a sink gets an alert only after the alert is saved, because after a kill lines without
	// timestamps are read again and get new times.
	Unique bool
	// Sink constructs the sink of a component without I/O. If it is nil, the daemon constructs it elsewhere.
	Sink func(Part, SinkOptions) (sinks.Sink, error)
}

// Labels describes the labels that streams can have.
type Labels struct {
	Fixed   map[string]string // names and values of labels that every stream has
	Free    []string          // names of labels that can have any value
	Any     bool              // whether streams can have any label with any value
	Ignored []string          // names of labels that are not part of a stream's identity
}

// SourceOptions are the dependencies that every source gets from the daemon.
type SourceOptions struct {
	Clock    func() time.Time
	LookBack time.Duration // how far back a source without a saved position reads, so that rules see their whole window
	// OpenFiles returns the maximum number of files that a source may hold open. configured is the number in the
	// configuration file, or 0.
	OpenFiles func(configured int) int
	Stdin     io.Reader
	// Namespace and Pod name the pod of this process, whose log is never read. PodFolder is the path prefix of the
	// folder that contains this log, or "" if unknown.
	Namespace, Pod, PodFolder string
	// Node is the name of the node of this process, or "" if unknown.
	Node string
	// Leads reports whether this process is the leader. If not, it also returns the leader. A nil function means that
	// this process always leads.
	Leads func() (leads bool, who string)
}

// SinkOptions are the dependencies that every sink gets from the daemon.
type SinkOptions struct {
	Log     zerolog.Logger
	Now     func() time.Time
	MaxKeys int // maximum number of alerts in a sink's state
	// OnAccepted is called when a receiver has accepted an alert, so that the daemon saves its state soon. unique is
	// set for sinks of unique kinds (see Kind.Unique).
	OnAccepted func(unique bool)
	// Leads reports whether this process may send now. A nil function means that it always may.
	Leads func() bool
	// Latency is called with the time between the line that made an alert fire and the first acceptance by a receiver.
	Latency func(time.Duration)
	// Into adds the external labels of alerts and the external URL of the pages to the settings of a sink.
	Into   func(labels *map[string]string, url *string)
	Stdout io.Writer
	Color  bool // whether stdout shows colors
}
