package matcher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/rules"

	"github.com/stretchr/testify/require"
)

// signature is a rule of the benchmark and a text that it matches.
type signature struct {
	rule *rules.Rule
	text string
}

var (
	benchVerbs  = []string{"admitting", "binding", "cordoning", "draining", "evicting", "fencing", "grafting", "halting", "importing", "joining"}
	benchNouns  = []string{"apiserver", "bootstrap", "conversion", "datastore", "endpoint", "finalizer", "gateway", "hypervisor", "initramfs", "journal"}
	benchCauses = []string{"quota exhausted", "lease expired", "hash mismatch", "token revoked", "disk pressure", "clock skew", "peer vanished", "zone outage", "schema drift", "port collision"}
)

// benchSignatures returns n different signatures: half plain texts, the others
// expressions with captures, alternatives, gaps and any case.
func benchSignatures(tb testing.TB, n int) []signature {
	var out []signature
	for i := range n {
		verb, noun, cause := benchVerbs[i%10], benchNouns[i/10%10], benchCauses[i/100%10]
		text := fmt.Sprintf("%s %s %s", verb, noun, cause)
		m, wants := rules.Matcher{Contains: []string{text}}, []string{"namespace", "pod"}
		switch i % 6 {
		case 1:
			m = rules.Matcher{Regex: literals.MustExpression(fmt.Sprintf(`%s %s %s on (?P<object>\S+) after \d+`, verb, noun, cause))}
			wants = append(wants, "object")
		case 3:
			m = rules.Matcher{Regex: literals.MustExpression(fmt.Sprintf(`%s (?:%s|nothing) %s`, verb, noun, cause))}
		case 5:
			m = rules.Matcher{Regex: literals.MustExpression(fmt.Sprintf(`(?i)%s %s.*%s`, verb, noun, cause))}
		}
		out = append(out, signature{ruleOf(tb, fmt.Sprint("Rule", i), m, wants...), text + " on default/x-1 after 12 s"})
	}
	return out
}

// benchLines returns physical lines of CRI, a share of which have a signature.
func benchLines(set []signature, size int, share float64) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	now := time.Date(2025, 11, 20, 10, 0, 0, 0, time.UTC)
	var b []byte
	for len(b) < size {
		now = now.Add(time.Duration(r.IntN(1e6)))
		b = now.AppendFormat(b, "2006-01-02T15:04:05.000000000Z stderr F ")
		line := appendSampleLine(nil, r)
		if r.Float64() < share {
			k := bytes.IndexByte(line, ' ')
			s := set[0]
			if share < 0.5 {
				s = set[r.IntN(len(set))]
			}
			line = append([]byte(fmt.Sprintf("E1120 10:00:00.000000       1 a.go:1] %q", s.text)), line[k:]...)
		}
		b = append(b, line...)
	}
	return b
}

// benchProgram measures the cost of its rules, as in the daemon.
func benchProgram(tb testing.TB, set []signature) *Program {
	var all []*rules.Rule
	for _, s := range set {
		all = append(all, s.rule)
	}
	return compileTimed(tb, all...)
}

func compileTimed(tb testing.TB, all ...*rules.Rule) *Program {
	began := time.Now()
	p, err := CompileTimed(&rules.Set{Rules: all}, func() time.Duration { return time.Since(began) })
	require.NoError(tb, err)
	return p
}

// BenchmarkScan reports MB/s of whole scans, CRI lines in blocks of 256 KiB.
func BenchmarkScan(b *testing.B) {
	for _, kind := range []struct {
		name  string
		share float64
	}{{"ordinary", 0.01}, {"storm", 0.9}} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/rules=%d", kind.name, n), func(b *testing.B) {
				set := benchSignatures(b, n)
				lines := benchLines(set, 8<<20, kind.share)
				blocks := wholeLines(lines, 256<<10)
				p, s := benchProgram(b, set), NewStream(manager, StreamOptions{Join: JoinStream})
				p.Rules(s)
				b.SetBytes(int64(len(lines)))
				b.ReportAllocs()
				hits := 0
				for b.Loop() {
					for _, block := range blocks {
						hits += len(p.Scan(s, block, arrival))
					}
				}
				require.Positive(b, hits)
				count := float64(bytes.Count(lines, []byte("\n")) * b.N)
				b.ReportMetric(count/b.Elapsed().Seconds()/1e6, "Mlines/s")
			})
		}
	}
}

func wholeLines(b []byte, size int) (blocks [][]byte) {
	for len(b) > 0 {
		n := min(size, len(b))
		n = bytes.LastIndexByte(b[:n], '\n') + 1
		blocks, b = append(blocks, b[:n]), b[n:]
	}
	return blocks
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			set := benchSignatures(b, n)
			for b.Loop() {
				benchProgram(b, set).Rules(NewStream(manager, StreamOptions{}))
			}
		})
	}
}

// BenchmarkComplaints scans the same lines with and without a look for complaints, in
// turns, and reports what the look adds, from the fastest scan of each block. Of the lines
// of klog a quarter complains.
func BenchmarkComplaints(b *testing.B) {
	for _, kind := range []struct {
		name  string
		lines []byte
	}{
		{"klog", benchLines(benchSignatures(b, 100), 8<<20, 0)},
		{"json", benchRepeat(`{"level":"info","ts":"2026-01-24T10:00:07.123Z","logger":"controllers.queue","msg":"Reconciled the queue of the shop","controller":"queue","namespace":"shop","name":"orders","reconcileID":"f8a1","took":"12ms"}`)},
		{"logfmt", benchRepeat(`time="2026-01-24T10:00:07Z" level=info msg="Reconciled the queue of the shop" controller=queue namespace=shop name=orders took=12ms`)},
		{"plain", benchRepeat(`10.0.0.1 - - [24/Jan/2026:10:00:07 +0000] "GET /api/v1/orders/123?page=4 HTTP/1.1" 200 1234 "-" "okhttp/4.9" 0.012 shop-orders-80 10.1.2.3:8080`)},
	} {
		b.Run(kind.name, func(b *testing.B) {
			p, s := benchProgram(b, benchSignatures(b, 100)), NewStream(manager, StreamOptions{Join: JoinStream})
			bufs := [2]*Buffer{new(Buffer), NewBuffer(128)}
			least := make([][2]time.Duration, 0, 64) // of each block: other processes disturb some
			blocks := wholeLines(kind.lines, 256<<10)
			complaints := 0
			for b.Loop() {
				for k, block := range blocks {
					if k == len(least) {
						least = append(least, [2]time.Duration{time.Hour, time.Hour})
					}
					for i, buf := range bufs {
						began := time.Now()
						p.ScanInto(buf, s, block, arrival)
						least[k][i] = min(least[k][i], time.Since(began))
					}
					complaints += len(bufs[1].Complaints())
				}
			}
			var took [2]time.Duration
			for _, x := range least {
				took[0], took[1] = took[0]+x[0], took[1]+x[1]
			}
			count := float64(bytes.Count(kind.lines, []byte("\n")))
			b.ReportMetric(float64(took[0].Nanoseconds())/count, "ns/line-without")
			b.ReportMetric(float64(took[1].Nanoseconds())/count, "ns/line-with")
			b.ReportMetric(100*(float64(took[1])/float64(took[0])-1), "%more")
			b.ReportMetric(float64(complaints)/count/float64(b.N), "complaints/line")
		})
	}
}

func benchRepeat(line string) []byte {
	return bytes.Repeat([]byte("2026-01-24T10:00:07.000000000Z stderr F "+line+"\n"), 8<<20/(len(line)+41))
}
