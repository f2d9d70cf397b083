// Package component lists the kinds of sources and sinks. The configuration file, its schema
// and its checks, the daemon, its alerts and the documents are derived from these lists.
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
	// Settings is an empty struct of the type of the settings, with the tags yaml and
	// bounds. Its method Validate() error, if it has one, returns errors that begin with a
	// key and may end with "; " and the fix. Settings whose key ends in _file name files
	// that must be readable; paths in them and in kubeconfig are relative to the file.
	Settings any
	// Single means that the file can have only one component of the kind, not a list.
	Single bool
	// Logs marks sources that are suspicious if they have never had a line, because every log
	// has lines. Loki finds out by itself whether its streams have lines.
	Logs bool
	// Lines marks other sources that are suspicious if they have never had a line.
	Lines bool
	// Filtered marks sources that read only lines that a rule may match.
	Filtered bool
	// Streams returns the labels that streams of a source can have; nil means any.
	Streams func(Part) []Labels
	// Losses explains the reasons for which a source can lose lines.
	Losses Losses
	// Names returns the names of a component's sources. Nil means that it has one source.
	Names func(Part) []string
	// Sources constructs the sources of a component. It does no I/O.
	Sources func(Part, SourceOptions) []sources.Source
	// Unique marks sinks whose receiver would treat an alert with another start as another
	// alert. They get an alert only after it is saved, because lines without times get new
	// times when they are read again after a kill.
	Unique bool
	// Sink constructs the sink of a component without I/O. If it is nil, the daemon constructs it elsewhere.
	Sink func(Part, SinkOptions) (sinks.Sink, error)
}

// Labels describes the labels that streams can have.
type Labels struct {
	Fixed   map[string]string // labels with these values
	Free    []string          // labels with any value
	Any     bool              // any label with any value
	Ignored []string          // labels that are not part of the stream's identity
}

// SourceOptions are the dependencies that every source gets from the daemon.
type SourceOptions struct {
	Clock    func() time.Time
	LookBack time.Duration // how far back rules look
	// OpenFiles returns how many files a source may hold open, from the number in the file or 0.
	OpenFiles func(configured int) int
	Stdin     io.Reader
	// Namespace and Pod name the pod of this process, whose log is never read. PodFolder is the
	// prefix of the folder of that log, or "" if unknown.
	Namespace, Pod, PodFolder string
	// Node is the name of the node of this process, or "" if unknown.
	Node string
	// Leads reports whether this process may accept something, or else which process may. Nil means always.
	Leads func() (leads bool, who string)
}

// SinkOptions are the dependencies that every sink gets from the daemon.
type SinkOptions struct {
	Log     zerolog.Logger
	Now     func() time.Time
	MaxKeys int // maximum number of alerts in a sink's state
	// OnAccepted is called when a receiver accepts an alert, so that the state is saved.
	// unique means that the receiver would not recognize a repetition.
	OnAccepted func(unique bool)
	// Leads reports whether this process may send now. Nil means always.
	Leads func() bool
	// Latency gets the time from the line that made an alert fire until the first receiver accepted it.
	Latency func(time.Duration)
	// Into adds the labels of every alert and the address of the pages to the settings of a sink.
	Into   func(labels *map[string]string, url *string)
	Stdout io.Writer
	Color  bool // whether stdout shows colors
}
