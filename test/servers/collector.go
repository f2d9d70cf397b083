package servers

import (
	_ "embed" // the configuration of the collector
	"os"
	"path/filepath"
	"testing"
)

//go:embed collector.yaml
var collectorConfig []byte

// CollectorOptions configure an OpenTelemetry collector.
type CollectorOptions struct {
	Pods     string // folder with the logs of pods, as the kubelet writes them
	Endpoint string // base address that receives OTLP over HTTP
	Node     string // value of k8s.node.name
	Token    string // bearer token
	CA       string // file with the certificate authority of an https endpoint; empty for http
}

// Collector starts a real OpenTelemetry collector that reads files and sends OTLP over
// HTTP. Its queue and its positions are on disk, so it survives Kill and Launch. It has no
// address of its own.
func Collector(t testing.TB, opt CollectorOptions) *Server {
	t.Helper()
	bin := Program(t, "otel-collector")
	dir := t.TempDir()
	config := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(config, collectorConfig, 0o600); err != nil {
		t.Fatalf("start collector: %v", err)
	}
	s := &Server{
		Name: "otel-collector", Dir: dir, t: t, bin: bin, args: []string{"--config", config, "--feature-gates=stanza.synchronousLogEmitter"},
		env: []string{
			"PODS=" + opt.Pods, "ENDPOINT=" + opt.Endpoint, "NODE=" + opt.Node, "AUTHORIZATION=Bearer " + opt.Token,
			"CA=" + opt.CA, "STATE=" + filepath.Join(dir, "state"),
		},
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			s.keepLog()
		}
	})
	s.Launch()
	return s
}
