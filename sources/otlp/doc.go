// Package otlp receives log records from OpenTelemetry collectors, by OTLP over HTTP.
//
// A request is answered with 200 only when its effects are on the disk. Before that the collector keeps the request in
// its queue. If a request is not saved in time, or the answer is lost, the collector sends the same records again. Their
// hits have the same fingerprints (see matcher.Hit), so they change nothing.
//
// # Senders
//
// A sender is the node that a resource names: k8s.node.name, or else host.name, with k8s.cluster.name before it if there
// is one. All resources that name no node are one sender. Each sender is a member of the source with its own watermark.
// The collector that sends for a node may change.
//
// # The watermark
//
// Collectors send several batches at a time and repeat some of them, so an older record may arrive after a newer one.
// The lateness is the longest time by which it may do so. Therefore the watermark of a sender is the time of the newest
// record that arrived at least the lateness ago. The lateness counts from the arrival and not back from the time of the
// record. After an outage, the queued records of many minutes arrive within seconds, while one of the first batches may
// still wait to be sent again.
//
// OTLP has no heartbeat. A sender without a new record has no proof of progress: its watermark stays, decisions that need
// it are on hold, and after global.blind_after the alert CrowsnestBlind fires.
package otlp
