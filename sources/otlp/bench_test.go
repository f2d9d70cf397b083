package otlp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// BenchmarkAccept decodes and matches requests with the attributes that a collector sets, against the shipped rules.
func BenchmarkAccept(b *testing.B) {
	var records []*logs.LogRecord
	for i := range 1000 {
		r := record(at, fmt.Sprintf(`I0102 03:04:05.000006       1 controller.go:%d] "Reconciling object" controller="machine" controllerGroup="cluster.x-k8s.io" namespace="default" name="worker-%d" reconcileID="5f2c8f5e-7d0c-4f43-9d3b-5b7a3a2f1c%02d"`, i, i, i%100))
		r.Attributes = pairs("log.file.path", "/var/log/pods/capi-system_capi-0_6b1c9b5e-0000-4000-8000-0000000000ff/manager/0.log", "log.iostream", "stderr", "logtag", "F")
		records = append(records, r)
	}
	body := encode(b, message(manager, records...))
	bench := newBench(b, Config{})
	set, err := rules.Load(rules.Shipped())
	require.NoError(b, err)
	bench.p.set, bench.p.quiet = set, true
	bench.p.prog, err = matcher.Compile(set)
	require.NoError(b, err)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, why := bench.h.accept(new(worker), body, protobuf); why != nil {
			b.Fatal(why.err)
		}
	}
}
