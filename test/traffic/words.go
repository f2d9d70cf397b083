package traffic

import (
	"math/rand/v2"
	"strconv"
)

var (
	subjects = []string{
		"volume binder", "lease keeper", "token rotator", "image puller", "quota ledger", "node drainer", "shard balancer",
		"webhook caller", "secret mirror", "route planner", "pod evictor", "disk cleaner", "peer tracker", "zone spreader",
		"chart installer", "policy checker", "backup runner", "snapshot taker", "proxy updater", "event recorder",
		"cache warmer", "member remover", "certificate signer", "upgrade planner", "claim resizer", "tunnel opener",
		"label syncer", "queue worker",
	}
	failures = []string{
		"refused to adopt", "gave up on", "timed out on", "lost track of", "rejected", "could not read", "could not write",
		"was denied", "ran out of", "found a stale", "cannot parse", "cannot reach", "is blocked by", "dropped", "failed over from",
		"mismatched", "skipped the broken", "crashed over", "keeps retrying", "never saw",
	}
	objects = []string{
		"shared claim", "control plane endpoint", "bootstrap data", "node reference", "owner reference", "finalizer list",
		"member list", "root certificate", "kubeconfig secret", "machine template", "replica count", "storage class",
		"load balancer address", "network policy", "ingress rule", "service account", "admission review", "conversion hook",
		"priority class", "topology key", "taint of the zone", "provider id", "cloud instance", "health probe", "volume snapshot",
		"rolling update", "pause annotation", "drain deadline", "etcd learner", "join token", "scale target", "audit backend",
	}
	causes = []string{
		"context deadline exceeded", "connection reset by peer", "the server has asked for the client to provide credentials",
		"etcdserver: request is too large", "object not found", "too many requests", "unexpected end of input",
		"the cache has not synced", "conflict with another writer", "dial tcp: i/o timeout",
	}
	moods = []string{
		"Stale", "Lost", "Broken", "Frozen", "Torn", "Empty", "Denied", "Late", "Missing", "Foreign", "Locked", "Expired",
		"Invalid", "Leaking", "Split", "Orphan", "Double", "Unsafe", "Rotten", "Blind", "Silent", "Dirty", "Wedged", "Halted",
		"Faulty",
	}
	things = []string{
		"Quorum", "Lease", "Mount", "Probe", "Token", "Shard", "Volume", "Route", "Taint", "Quota", "Watch", "Owner", "Member",
		"Leader", "Disk", "Socket", "Clock", "Index", "Queue", "Tunnel", "Bridge", "Backup", "Claim", "Agent", "Policy", "Event",
		"Pool", "Zone", "Peer", "Tenant", "Layer", "Digest", "Mirror", "Vault", "Ticket", "Cursor", "Ledger", "Beacon", "Anchor",
		"Sensor", "Signer", "Portal", "Kernel", "Shadow", "Fence", "Gate", "Hook", "Port", "Seal", "Tag",
	}
	kinds = []string{
		"Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool", "KubeadmControlPlane", "KubeadmConfig", "Node", "Pod",
		"Deployment", "StatefulSet", "Certificate", "Issuer", "HelmRelease", "Kustomization", "PersistentVolumeClaim",
	}
	namespaces = []string{"kube-system", "fleet-default", "cert-manager", "team-blue", "team-red", "edge-17", "platform", "vcluster-ci"}
	sites      = []string{"lyon", "oslo", "kyiv", "turin", "porto", "gdansk", "leipzig", "tampere"}
)

// phrases is the number of different phrases. Signatures use the first half and
// near misses the second: they share words, but never a phrase.
var phrases = len(subjects) * len(failures) * len(objects)

// phrase returns the i-th phrase, different for every i.
func phrase(i int) string {
	// A prime that does not divide the number of phrases makes this a permutation.
	i = i * 7919 % phrases
	subject, i := subjects[i%len(subjects)], i/len(subjects)
	failure, i := failures[i%len(failures)], i/len(failures)
	return subject + " " + failure + " " + objects[i]
}

// tokens are the short words of signatures, of 7 to 14 bytes.
func tokens() []string {
	all := len(moods) * len(things)
	var out []string
	for i := range all {
		k := i * 487 % all
		if t := moods[k%len(moods)] + things[k/len(moods)]; len(t) >= 7 && len(t) <= 14 {
			out = append(out, t)
		}
	}
	return out
}

// dice draws random words and values.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0x6c6f6f6b6f757421))} }

func (d dice) chance(p float64) bool { return d.Float64() < p }

func (d dice) one(of []string) string { return of[d.IntN(len(of))] }

func (d dice) number(b []byte, below int) []byte {
	return strconv.AppendInt(b, int64(d.IntN(below)), 10)
}

const (
	nameLetters = "bcdfghjklmnpqrstvwxz2456789"
	hexDigits   = "0123456789abcdef"
)

func (d dice) letters(b []byte, n int, set string) []byte {
	for range n {
		b = append(b, set[d.IntN(len(set))])
	}
	return b
}

// name returns one of about a hundred names, such as oslo-md-3.
func (d dice) name(b []byte) []byte {
	b = append(b, d.one(sites)...)
	switch d.IntN(4) {
	case 0:
		b = append(b, "-control-plane-"...)
		return d.number(b, 3)
	case 1:
		b = append(b, "-md-"...)
		return d.number(b, 8)
	case 2:
		return append(b, "-infra"...)
	}
	return b
}

// pod returns one of very many names.
func (d dice) pod(b []byte) []byte {
	b = append(d.name(b), '-')
	b = append(d.letters(b, 5, nameLetters), '-')
	return d.letters(b, 5, nameLetters)
}

func (d dice) object(b []byte) []byte {
	b = append(append(b, d.one(namespaces)...), '/')
	return d.name(b)
}

func (d dice) uuid(b []byte) []byte {
	b = append(d.letters(b, 8, hexDigits), '-')
	b = append(d.letters(b, 4, hexDigits), "-4"...)
	b = append(d.letters(b, 3, hexDigits), "-a"...)
	b = append(d.letters(b, 3, hexDigits), '-')
	return d.letters(b, 12, hexDigits)
}

func (d dice) duration(b []byte) []byte {
	b = d.number(b, 900)
	return append(b, d.one([]string{"ms", "s", "m"})...)
}
