// Package metric builds collectors for Prometheus from tables. A package keeps the table of its
// metric families next to the counters that they read. One entry has the name, the help text
// and the value of a family.
package metric

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "crowsnest_"

// Collector is the interface that a registry accepts.
type Collector = prometheus.Collector

// Value is the type of a sample. A boolean becomes 0 or 1, a duration becomes seconds, and a
// time becomes Unix seconds. The zero time becomes 0.
type Value interface {
	bool | int | int64 | float64 | time.Duration | time.Time
}

// Families are metric families whose samples are read from a value of type S.
type Families[S any] []family[S]

type family[S any] struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	read       func(from S, send func(value float64, labels ...string))
}

// Gauge returns a gauge with one sample.
func Gauge[S any, V Value](name, help string, value func(S) V) Families[S] {
	return newSingle(prometheus.GaugeValue, name, help, value)
}

// Counter returns a counter with one sample.
func Counter[S any, V Value](name, help string, value func(S) V) Families[S] {
	return newSingle(prometheus.CounterValue, name, help, value)
}

// GaugeBy returns a gauge with a sample for each value of a label.
func GaugeBy[S any, V Value](name, help, label string, values func(S) map[string]V) Families[S] {
	return newLabeled(prometheus.GaugeValue, name, help, label, values)
}

// CounterBy returns a counter with a sample for each value of a label.
func CounterBy[S any, V Value](name, help, label string, values func(S) map[string]V) Families[S] {
	return newLabeled(prometheus.CounterValue, name, help, label, values)
}

func newSingle[S any, V Value](kind prometheus.ValueType, name, help string, value func(S) V) Families[S] {
	return Families[S]{{name, help, kind, nil, func(from S, send func(float64, ...string)) { send(toFloat(value(from))) }}}
}

func newLabeled[S any, V Value](kind prometheus.ValueType, name, help, label string, values func(S) map[string]V) Families[S] {
	return Families[S]{{name, help, kind, []string{label}, func(from S, send func(float64, ...string)) {
		for key, v := range values(from) {
			send(toFloat(v), key)
		}
	}}}
}

// ForEach returns families that are read from each item of an S. The labels identify the item.
func ForEach[S, T any](items func(S) []T, names []string, labels func(T) []string, all ...Families[T]) Families[S] {
	var out Families[S]
	for _, f := range slices.Concat(all...) {
		out = append(out, family[S]{f.name, f.help, f.kind, slices.Concat(names, f.labels), func(from S, send func(float64, ...string)) {
			for _, item := range items(from) {
				f.read(item, func(v float64, more ...string) { send(v, slices.Concat(labels(item), more)...) })
			}
		}})
	}
	return out
}

// OmitZeros returns families without the samples that are 0, because nearly all of the hundreds of rules have only such
// samples. The disadvantage is that rate() does not see the first increase of a counter.
func OmitZeros[S any](all ...Families[S]) Families[S] {
	out := slices.Concat(all...)
	for i, f := range out {
		out[i].read = func(from S, send func(float64, ...string)) {
			f.read(from, func(v float64, labels ...string) {
				if v != 0 {
					send(v, labels...)
				}
			})
		}
	}
	return out
}

// NonZero returns the entries of m that are not zero if only is set. Otherwise it returns m.
func NonZero(m map[string]int64, only bool) map[string]int64 {
	if only {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_ string, n int64) bool { return n == 0 })
	}
	return m
}

// NewEach returns a collector that reads families from each item that read returns.
func NewEach[T any](read func() []T, names []string, labels func(T) []string, all ...Families[T]) Collector {
	return New(read, ForEach(func(items []T) []T { return items }, names, labels, all...))
}

// New returns a collector for families, whose names get the prefix "crowsnest_". It calls read once per scrape. read
// must be safe for concurrent use.
func New[S any](read func() S, all ...Families[S]) Collector {
	c := collector[S]{read: read, families: slices.Concat(all...)}
	for _, f := range c.families {
		c.descs = append(c.descs, prometheus.NewDesc(namespace+f.name, f.help, f.labels, nil))
	}
	return c
}

type collector[S any] struct {
	read     func() S
	families Families[S]
	descs    []*prometheus.Desc // descriptions of the families
}

// Describe implements prometheus.Collector.
func (c collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector[S]) Collect(ch chan<- prometheus.Metric) {
	from := c.read()
	for i, f := range c.families {
		f.read(from, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(c.descs[i], f.kind, v, labels...)
		})
	}
}

func toFloat[V Value](value V) float64 {
	switch v := any(value).(type) {
	case bool:
		if v {
			return 1
		}
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return v.Seconds()
	case time.Time:
		if v.Unix() > 0 {
			return float64(v.UnixNano()) / float64(time.Second)
		}
	}
	return 0
}
