package replay

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// However many inputs there are, and whether their hits are stored or merged while the
// inputs are open, the result is the same.
func TestManyInputs(t *testing.T) {
	set, prog := compile(t, scanPack)
	const now = "2026-01-02T00:00:00Z"
	f := func(inputs, lines int) {
		t.Run(fmt.Sprint(inputs, " inputs of ", lines, " lines"), func(t *testing.T) {
			var in []Input
			for i := range inputs {
				text := hostileLog(rand.New(rand.NewPCG(uint64(i), 7)), lines)
				in = append(in, Input{Name: fmt.Sprint("log-", i), Labels: matcher.Labels{FileLabel: fmt.Sprint(i)}, Open: func() (io.ReadCloser, error) {
					return io.NopCloser(strings.NewReader(text)), nil
				}})
			}
			run := func(most int) (hits []string, r Report) {
				opt := ScanOptions{Lenient: true, OnHits: func(file string, some []matcher.Hit) {
					for _, h := range some {
						hits = append(hits, fmt.Sprint(file, h.Rule.Alert, h.Part, h.Time, h.TextTime, h.Line, h.LineNumber, h.Values, h.Labels, h.ID))
					}
				}}
				opt.Now, _ = time.Parse(time.RFC3339, now)
				r, err := scanInputs(set, prog, in, opt, most)
				require.NoError(t, err)
				return hits, r
			}
			wantHits, want := run(inputs)
			gotHits, got := run(0)
			require.NotEmpty(t, wantHits)
			require.Equal(t, wantHits, gotHits)
			require.Equal(t, want.Outcomes, got.Outcomes)
			require.Equal(t, alertTexts(want), alertTexts(got))
			want.Alerts, got.Alerts, want.Outcomes, got.Outcomes = nil, nil, nil, nil
			require.Equal(t, want, got)
		})
	}
	f(1, 2000)
	f(40, 100)
	f(300, 3)
}

func alertTexts(r Report) (out []string) {
	for _, a := range r.Alerts {
		out = append(out, fmt.Sprint(a.Episode.Alert, a.Episode.Labels, a.Episode.State, a.FiredAt, a.Episode.EndsAt, a.Episode.Count, a.Episode.Line))
	}
	return out
}

// opened counts the inputs that are open.
type opened struct {
	io.Reader
	now *atomic.Int64
}

func (o opened) Close() error {
	o.now.Add(-1)
	return nil
}

// Inputs with matching lines do not stay open until their turn.
func TestFewInputsAreOpen(t *testing.T) {
	set, prog := compile(t, scanPack)
	var now, most atomic.Int64
	var in []Input
	for i := range 2 * maxOpen {
		text := cri(i%60, "conflict on x") + "\n" + strings.Repeat(cri(i%60, strings.Repeat("nothing ", 100))+"\n", 300) + cri(i%60, "conflict on y") + "\n"
		in = append(in, Input{Name: fmt.Sprint(i), Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
			most.Store(max(most.Load(), now.Add(1)))
			return opened{strings.NewReader(text), &now}, nil
		}})
	}
	report, err := Scan(set, prog, in, ScanOptions{Lenient: true})
	require.NoError(t, err)
	require.EqualValues(t, 4*maxOpen, report.Hits)
	require.LessOrEqual(t, most.Load(), int64(maxOpen))
	require.Zero(t, now.Load())
}
