package window

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/redact"
	"crowsnest/rules"
)

var everywhere = Gap{NoTime, Forever}

func counting(count int, within time.Duration) *rules.Rule {
	return &rules.Rule{Count: count, Within: within, Steps: make([]rules.Step, 1)}
}

func sequence(within time.Duration, steps ...rules.Step) *rules.Rule {
	return &rules.Rule{Count: 1, Within: within, Sequence: true, Steps: steps}
}

// add counts a line of its own at t.
func add(w *Window, r *rules.Rule, step int, t int64, values ...redact.Text) (Trigger, bool) {
	return w.Add(r, step, newHit(step, t, values...), &Copier{}, everywhere)
}

func newHit(step int, t int64, values ...redact.Text) *Hit {
	return &Hit{T: t, ID: uint64(t)<<8 + uint64(step), Names: []string{"v"}, Values: values, Line: Text{Raw: "line"}}
}

func TestCount(t *testing.T) {
	f := func(r *rules.Rule, in Gap, lines []int64, last, wantT, wantLines int64) {
		t.Helper()
		w := New(r)
		for _, at := range lines {
			add(&w, r, 0, at)
		}
		trig, ok := w.Add(r, 0, newHit(0, last), &Copier{}, in)
		require.Equal(t, wantLines > 0, ok)
		if ok {
			require.Equal(t, []int64{wantT, wantLines}, []int64{trig.T, trig.Lines})
			require.Equal(t, wantT-int64(r.Within), trig.WindowStart)
		}
	}
	three := counting(3, 10)
	f(three, everywhere, []int64{1, 5}, 10, 10, 3)
	f(three, everywhere, []int64{1, 5}, 11, 0, 0)           // the window does not include its beginning
	f(three, everywhere, []int64{5, 5}, 5, 5, 3)            // lines of one time count one by one
	f(three, everywhere, []int64{8, 10}, 5, 10, 3)          // the first line is read last
	f(three, everywhere, []int64{1, 2, 20, 21}, 3, 3, 3)    // the newest window that holds the line
	f(three, Gap{4, Forever}, []int64{3, 5}, 6, 0, 0)       // a clear line is between them
	f(three, Gap{NoTime, 9}, []int64{5, 6, 9, 10}, 7, 7, 3) // lines from the next clear line on do not count
	f(counting(1, time.Second), everywhere, nil, 7, 7, 1)
}

// Only the newest MaxHits lines are kept; an older line does not count.
func TestLinesAreBounded(t *testing.T) {
	r := counting(rules.MaxHits, time.Hour)
	w := New(r)
	for i := range int64(rules.MaxHits) {
		_, ok := add(&w, r, 0, 10+i)
		require.Equal(t, i == rules.MaxHits-1, ok)
	}
	_, ok := add(&w, r, 0, 1)
	require.False(t, ok)
	trig, ok := add(&w, r, 0, 1000)
	require.True(t, ok)
	require.EqualValues(t, rules.MaxHits, trig.Lines)
	require.Equal(t, rules.MaxHits, w.Size())
}

// A window of thousands of lines is exact, whatever the order in which they are read, and it
// equals one that keeps every line.
func TestLargeCountIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 600).Draw(t, "count")
		r := counting(count, time.Duration(rapid.IntRange(1, 1200).Draw(t, "within")))
		w, all := New(r), Times{}
		for i := range int64(rapid.IntRange(0, 1500).Draw(t, "lines")) {
			at := max(0, i-int64(rapid.IntRange(0, 40).Draw(t, "late")))
			if rapid.IntRange(0, 30).Draw(t, "drop") == 0 {
				w.DropUpTo(at - 900)
				all = all[all.IndexAfter(at-900):]
			}
			all = slices.Insert(all, all.IndexAfter(at), at)
			all = all[max(0, len(all)-maxLines(r)):]
			trig, ok := add(&w, r, 0, at)
			require.Equal(t, all, w.Lines())
			end, n := countedSlowly(r, all, at)
			require.Equal(t, n > 0 && all[0] <= at, ok)
			if ok {
				require.Equal(t, []int64{end, n}, []int64{trig.T, trig.Lines})
			}
		}
	})
}

// countedSlowly returns the newest window with count lines that holds the line at t.
func countedSlowly(r *rules.Rule, all Times, t int64) (end, n int64) {
	for _, e := range all {
		if e < t || e-int64(r.Within) >= t {
			continue
		}
		if in := int64(all.IndexAfter(e) - all.IndexAfter(e-int64(r.Within))); in >= int64(r.Count) {
			end, n = e, in
		}
	}
	return end, n
}

// A window gives its memory back, and its size follows its memory.
func TestLargeWindowShrinks(t *testing.T) {
	r := counting(rules.MaxCount, time.Hour)
	w := New(r)
	for i := range int64(2 * rules.MaxCount) {
		add(&w, r, 0, i)
	}
	require.Len(t, w.Lines(), rules.MaxCount)
	require.LessOrEqual(t, cap(w.lines.all), 2*rules.MaxCount)
	require.Equal(t, rules.MaxHits+(rules.MaxCount-rules.MaxHits)/timesPerHit, w.Size())
	for i := range int64(rules.MaxCount) {
		w.DropUpTo(rules.MaxCount + i)
		require.LessOrEqual(t, cap(w.lines.all), 2*rules.MaxHits+6*len(w.Lines()))
	}
	require.Zero(t, w.Size())
}

func TestDistinct(t *testing.T) {
	r := counting(2, 10)
	r.Distinct = "v"
	w := New(r)
	_, ok := add(&w, r, 0, 1, "a")
	require.False(t, ok)
	_, ok = add(&w, r, 0, 2, "a")
	require.False(t, ok, "the same value")
	trig, ok := add(&w, r, 0, 3, "b")
	require.True(t, ok)
	require.EqualValues(t, 3, trig.Lines, "lines, not values")
	_, ok = add(&w, r, 0, 1, "b")
	require.False(t, ok, "a newer line of the value is counted")
	_, ok = add(&w, r, 0, 12, "a")
	require.True(t, ok, "b at 3 is younger than 10")
	_, ok = add(&w, r, 0, 13, "a")
	require.False(t, ok, "b at 3 is not")
}

func TestSequence(t *testing.T) {
	type line struct {
		step int
		t    int64
		v    string
	}
	f := func(r *rules.Rule, want []int64, lines ...line) {
		t.Helper()
		w := New(r)
		for i, l := range lines {
			trig, ok := add(&w, r, l.step, l.t, redact.Text(l.v))
			if i < len(lines)-1 {
				continue
			}
			require.Equal(t, want != nil, ok)
			if ok {
				require.Equal(t, Times(want), trig.Sequence.times(nil))
				require.Equal(t, []int64{want[len(want)-1], want[0] - 1}, []int64{trig.T, trig.WindowStart})
			}
		}
	}
	two := sequence(10, rules.Step{}, rules.Step{})
	f(two, []int64{1, 5}, line{0, 1, ""}, line{1, 5, ""})
	f(two, []int64{3, 5}, line{0, 1, ""}, line{0, 3, ""}, line{1, 5, ""})                  // the latest first step
	f(two, []int64{2, 8}, line{1, 5, ""}, line{1, 8, ""}, line{1, 12, ""}, line{0, 2, ""}) // the newest last step within 10
	f(two, nil, line{0, 1, ""}, line{1, 11, ""})                                           // too far apart
	f(two, nil, line{1, 1, ""}, line{0, 2, ""})                                            // the wrong order
	differ := sequence(10, rules.Step{}, rules.Step{Differs: []string{"v"}})
	f(differ, nil, line{0, 1, "a"}, line{1, 5, "a"})
	f(differ, []int64{1, 5}, line{0, 1, "b"}, line{0, 2, "a"}, line{1, 5, "a"})
}

// One line cannot be two steps of a sequence, and counts once.
func TestALineIsOneStep(t *testing.T) {
	r := sequence(10, rules.Step{}, rules.Step{})
	w := New(r)
	both := func(at int64, id uint64) (ok bool, lines int64) {
		for step := range 2 {
			var trig Trigger
			trig, ok = w.Add(r, step, &Hit{T: at, ID: id}, &Copier{}, everywhere)
			lines = trig.Lines
		}
		return ok, lines
	}
	ok, _ := both(1, 7)
	require.False(t, ok)
	ok, lines := both(2, 8)
	require.True(t, ok)
	require.EqualValues(t, 2, lines)
}

// Size is exact, whatever was added and dropped.
func TestSizeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom([]*rules.Rule{
			counting(3, 10), {Count: 2, Within: 10, Distinct: "v", Steps: make([]rules.Step, 1)}, sequence(10, rules.Step{}, rules.Step{}),
		}).Draw(t, "rule")
		w := New(r)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			at := rapid.Int64Range(0, 50).Draw(t, "t")
			switch rapid.SampledFrom([]string{"add", "add", "add", "drop", "halve"}).Draw(t, "what") {
			case "add":
				long := strings.Repeat("x", rapid.IntRange(0, 3*ExtraBytes).Draw(t, "length"))
				add(&w, r, rapid.IntRange(0, len(r.Steps)-1).Draw(t, "step"), at, redact.Text(long))
			case "drop":
				w.DropUpTo(at)
				require.True(t, w.NewestTime() > at || w.Size() == 0)
			case "halve":
				w.DropOlderHalf()
			}
			size := len(w.Lines()) + len(w.Values) + w.Values.extraSize()
			for _, hs := range w.Steps {
				require.True(t, slices.IsSortedFunc(hs, func(a, b *Hit) int { return int(a.T - b.T) }))
				size += len(hs) + hs.extraSize()
			}
			require.Equal(t, size, w.Size())
		}
	})
}

// Clear lines divide time as a sorted list of all of them does, in any order of reading.
func TestClearsAreASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, all := NoClears(), Times{}
		for _, at := range rapid.SliceOfN(rapid.Int64Range(0, 100), 0, maxClears).Draw(t, "clears") {
			c = c.Add(at, 0, NoTime)
			if i, found := slices.BinarySearch(all, at); !found {
				all = slices.Insert(all, i, at)
			}
		}
		at := rapid.Int64Range(-1, 101).Draw(t, "t")
		i, found := slices.BinarySearch(all, at)
		want := Gap{NoTime, Forever}
		if i > 0 {
			want.Lo = all[i-1]
		}
		if i < len(all) {
			want.Hi = all[i]
		}
		require.Equal(t, want.Lo, c.NewestBefore(at))
		g, alive := c.GapAround(at)
		require.Equal(t, !found, alive)
		if alive {
			require.Equal(t, want, g)
		}
	})
}

// Forgotten clear lines end everything older: nothing opens between them.
func TestForgottenClears(t *testing.T) {
	c := NoClears()
	for i := range int64(3 * maxClears) {
		c = c.Add(i*10, 0, NoTime)
	}
	require.Len(t, *c.Older, maxClears)
	_, alive := c.GapAround(5)
	require.False(t, alive)
	_, alive = c.GapAround((3*maxClears-2)*10 + 5)
	require.True(t, alive)

	hour := int64(time.Hour)
	c = NoClears().Add(0, 0, NoTime).Add(hour, 0, NoTime).Add(3*hour, 0, 3*hour)
	_, alive = c.GapAround(hour / 2)
	require.False(t, alive, "an hour behind the watermark")

	// Nothing fires within `for`, so a clear line between two others within `for` is
	// dropped.
	c = NoClears().Add(0, 100, NoTime).Add(50, 100, NoTime).Add(100, 100, NoTime)
	require.Equal(t, Times{0}, *c.Older)
}

func TestPack(t *testing.T) {
	f := func(ts ...int64) {
		t.Helper()
		require.Equal(t, Times(ts), UnpackTimes(Times(ts).Pack()))
	}
	f()
	f(0)
	f(-5, -5, 0, 7, 1<<60)
	f(start, start, start+1)
	require.Nil(t, Times{}.Pack())
}

const start = int64(1_800_000_000_000_000_000)

// Damaged bytes decode to sorted times within the bound.
func TestUnpackOfDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff})).Draw(t, "bytes")
		ts := UnpackTimes(b)
		require.True(t, slices.IsSorted(ts))
		require.LessOrEqual(t, len(ts), rules.MaxCount)
	})
}

// Of many triggers, the first and the newest are kept.
func TestTriggersAreBounded(t *testing.T) {
	var ts Times
	for i := range int64(1000) {
		ts.AddTrigger(i)
		ts.AddTrigger(i)
		require.LessOrEqual(t, len(ts), maxTriggers)
		require.Equal(t, []int64{0, i}, []int64{ts[0], ts[len(ts)-1]})
	}
	require.True(t, slices.IsSorted(ts))
}

func TestCopier(t *testing.T) {
	memory := []byte("a line that is longer than ten bytes")
	c := Copier{Max: 10, Sample: func(line string) redact.Text { return redact.Text(line[:3]) }}
	short, long := Text{Raw: "short", Borrowed: true}, Text{Raw: string(memory), Borrowed: true}
	require.Equal(t, Text{Raw: "short"}, c.CopyText(short))
	require.Equal(t, Text{Clean: "a l"}, c.CopyText(long), "a sample is redacted")
	require.Equal(t, Text{Raw: "own"}, c.CopyText(Text{Raw: "own"}))

	from, to := Hit{T: 1, Line: short, Borrowed: true, Values: []redact.Text{"v"}}, Hit{}
	c.Borrow(&to, &from)
	require.False(t, c.IsReleased())
	require.True(t, to.Borrowed)
	c.Release()
	require.True(t, c.IsReleased())
	require.Equal(t, Text{Raw: "short"}, to.Line)
	require.False(t, to.Borrowed)
	from.Values[0] = "other"
	require.Equal(t, []redact.Text{"v"}, to.Values)
}
