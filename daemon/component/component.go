// Package component lists the kinds of sources and sinks. The configuration file, its
// schema and checks, the daemon and its alerts, and the documents loop over the lists.
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
	// Key is its key below `sources` or `sinks` in the file, and the default name.
	Key string
	// Help is one sentence for documents.
	Help string
	// Settings is an empty struct of the type of the settings, with the tags yaml and
	// bounds. Its method Validate() error, if it has one, returns errors that begin with a
	// key and may end with "; " and the fix. Settings whose key ends in _file name files
	// that must be readable; paths in them and in kubeconfig are relative to the file.
	Settings any
	// Single allows one component of the kind; otherwise the file may have a list.
	Single bool
	// Logs marks sources whose silence since their first start is suspicious: every log has
	// lines. Loki proves by itself that its streams have some.
	Logs bool
	// Lines marks other sources of which that is true.
	Lines bool
	// Filtered marks sources that read only lines that a rule may match.
	Filtered bool
	// Streams returns the labels that streams of a source can have; nil means any.
	Streams func(Part) []Labels
	// Losses are the reasons for which a source loses lines.
	Losses Losses
	// Names returns the names of the sources of a component; nil means one source.
	Names func(Part) []string
	// Sources constructs the sources of a component, without I/O.
	Sources func(Part, SourceOptions) []sources.Source
	// Unique marks sinks whose receiver would take an alert with another start for another
	// alert. They get an alert once it is saved, because lines without times get new ones
	// when they are read again after a kill.
	Unique bool
	// Sink constructs the sink of a component, without I/O; nil if the daemon does so
	// elsewhere.
	Sink func(Part, SinkOptions) (sinks.Sink, error)
}

// Labels are those of a stream.
type Labels struct {
	Fixed   map[string]string // labels with these values
	Free    []string          // labels with any value
	Any     bool              // any label with any value
	Ignored []string          // not part of the stream's identity
}

// Loss explains a reason for which lines are lost.
type Loss struct{ Severity, What, Fix string }

// Losses are explanations by reason.
type Losses map[string]Loss

// SourceOptions is what the daemon gives to every source.
type SourceOptions struct {
	Clock    func() time.Time
	LookBack time.Duration // how far rules look back
	// OpenFiles returns how many files a source may hold open; configured is 0 if the
	// file does not say.
	OpenFiles func(configured int) int
	Stdin     io.Reader
	// Namespace and Pod name the pod that this process runs in, whose log is never
	// read. PodFolder is the prefix of the folder of its logs, "" if it is not known.
	Namespace, Pod, PodFolder string
	// Node is the name of the node that this process runs on, "" if it is not known.
	Node string
	// Leads reports whether this process may accept something now, and if not, which
	// process may; nil means always.
	Leads func() (leads bool, who string)
}

// SinkOptions is what the daemon gives to every sink.
type SinkOptions struct {
	Log     zerolog.Logger
	Now     func() time.Time
	MaxKeys int // bound of the alerts in a sink's state
	// Accepted is called when a receiver accepts an alert, so that the state is saved.
	// unique means that the receiver would not recognize a repetition.
	Accepted func(unique bool)
	// Leads reports whether this process may send now; nil means always.
	Leads func() bool
	// Latency is called with the time from the line that made an alert fire until the
	// first receiver accepted the alert.
	Latency func(time.Duration)
	// Into adds the labels of every alert, and the address of the pages, to the settings
	// of a sink.
	Into   func(labels *map[string]string, url *string)
	Stdout io.Writer
	Color  bool // Stdout shows colors
}
