package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/rules"
	"crowsnest/rules/selector"
	"crowsnest/sources"
)

// sendReport sends a report of n1 and returns the answer.
func (b *bench) sendReport(r wire.Report) (int, wire.ReportAnswer) {
	b.t.Helper()
	if r.Node == "" {
		r.Node, r.Instance = "n1", "i1"
	}
	body, _ := r.Seal()
	return b.tellRaw(body)
}

func (b *bench) tellRaw(body []byte) (int, wire.ReportAnswer) {
	b.t.Helper()
	w := httptest.NewRecorder()
	b.s.Handler(b.p).ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.ReportPath, bytes.NewReader(body)))
	var a wire.ReportAnswer
	if w.Code == http.StatusOK {
		require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &a))
	}
	return w.Code, a
}

func lost(count int64) wire.Condition {
	return wire.Condition{
		Alert: "CrowsnestLinesLost", Severity: "warning", Labels: map[string]string{"reason": "gap"}, Since: start, Count: count, LastSeen: start, Detail: "a\nb\x1b[31m",
	}
}

func TestReportsAreFoldedByCondition(t *testing.T) {
	b := newBench(t, Config{})
	code, _ := b.sendReport(wire.Report{})
	require.Equal(t, http.StatusConflict, code, "no agent has sent for the node yet")
	b.say(wire.Message{OldestSequence: 1})
	b.say(wire.Message{Node: "n2", OldestSequence: 1})
	code, _ = b.sendReport(wire.Report{Conditions: []wire.Condition{lost(2)}})
	require.Equal(t, http.StatusOK, code)
	b.sendReport(wire.Report{Node: "n2", Instance: "i1", Conditions: []wire.Condition{lost(3), {Alert: "CrowsnestBlind", Severity: "critical", Detail: "no such directory", Since: start}}})
	got := b.s.Status()
	require.Equal(t, []sources.Condition{{
		Alert: "CrowsnestLinesLost", Severity: "warning", Labels: map[string]string{"reason": "gap"}, Detail: "a b[31m", Since: start, LastSeen: start, Count: 5, Members: []string{"n1", "n2"},
	}}, got.Conditions)
	require.Equal(t, "its agent reports: no such directory", got.Members["agents/n2"].Error, "the node's own alert states why")
	require.Equal(t, int64(5), b.s.Stats().Losses)

	// Counts go on over a new instance, and a report outlives both processes.
	b.say(wire.Message{Instance: "i2", EarlierInstances: []string{"i1"}, OldestSequence: 1})
	b.sendReport(wire.Report{Node: "n1", Instance: "i2", Conditions: []wire.Condition{lost(3)}})
	require.Equal(t, int64(6), b.s.Stats().Losses)
	pos := b.save()
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	require.Equal(t, []string{"n1", "n2"}, b.s.Status().Conditions[0].Members)
}

// A condition that ended before it could be reported is shown for a while.
func TestALossThatIsOverIsShown(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{OldestSequence: 1})
	c := lost(1)
	c.Ended = true
	b.sendReport(wire.Report{Conditions: []wire.Condition{c}})
	b.sendReport(wire.Report{})
	require.Len(t, b.s.Status().Conditions, 1)
	b.now = at(endedFor)
	require.Empty(t, b.s.Status().Conditions)
}

// An agent that sends reports has no watermark before the first one, and again
// after a restart of either side.
func TestProofWaitsForTheReport(t *testing.T) {
	b := newBench(t, Config{})
	said := func(m wire.Message) string {
		m.Node, m.SentAt, m.Reports, m.OldestSequence = "n1", b.now, true, 1
		var a wire.Answer
		require.NoError(t, json.Unmarshal(b.post(m.Append(nil)).Body.Bytes(), &a))
		return a.Report
	}
	require.Empty(t, said(wire.Message{Instance: "i1", Watermark: at(time.Second)}))
	require.Empty(t, b.p.watermarks)
	_, answer := b.sendReport(wire.Report{})
	require.Equal(t, answer.Report, said(wire.Message{Instance: "i1", Watermark: at(2 * time.Second)}))
	require.Equal(t, at(2*time.Second), b.p.watermarks["agents/n1"])
	require.Empty(t, said(wire.Message{Instance: "i2", EarlierInstances: []string{"i1"}, Watermark: at(3 * time.Second)}))
	require.Equal(t, at(2*time.Second), b.p.watermarks["agents/n1"])
}

// An agent serves what it states. It is added again when that changes, its statement
// outlives a restart, and an agent that states nothing serves everything.
func TestAgentsStateWhatTheyRead(t *testing.T) {
	b := newBench(t, Config{})
	objects, err := selector.Parse(`{component="conditions"}`)
	require.NoError(t, err)
	pods, err := selector.Parse(`{container=~".+"}`)
	require.NoError(t, err)
	expect := func(member string, served, added int) {
		t.Helper()
		got := 0
		for i, from := range []rules.Selector{pods, objects} {
			if b.s.MemberServes(member)(from) {
				got += i + 1
			}
		}
		require.Equal(t, served, got)
		require.Equal(t, added, b.p.added)
	}
	b.say(wire.Message{OldestSequence: 1})
	expect("agents/n1", 3, 1)
	b.sendReport(wire.Report{UnservedSelectors: []string{objects.String()}})
	expect("agents/n1", 1, 2)
	b.sendReport(wire.Report{UnservedSelectors: []string{objects.String()}, Rules: map[string]string{"A": "1"}})
	expect("agents/n1", 1, 2)
	b.say(wire.Message{Node: "n2", OldestSequence: 1})
	expect("agents/n2", 3, 3)
	require.True(t, b.s.Serves(objects), "n2 has not stated that it does not")

	pos := b.save()
	b.s = New(b.s.cfg)
	require.NoError(t, b.s.Restore(pos))
	expect("agents/n1", 1, 3)
	expect("agents/n2", 3, 3)
	expect("agents/?", 3, 3)

	b.say(wire.Message{Instance: "i2", EarlierInstances: []string{"i1"}, OldestSequence: 1})
	b.sendReport(wire.Report{Node: "n1", Instance: "i2"})
	expect("agents/n1", 3, 5)
	code, _ := b.sendReport(wire.Report{Node: "n1", Instance: "i1", UnservedSelectors: []string{objects.String()}})
	require.Equal(t, http.StatusConflict, code)
	expect("agents/n1", 3, 5)
}

func TestHostileReportsAreRefused(t *testing.T) {
	b := newBench(t, Config{})
	b.say(wire.Message{OldestSequence: 1})
	f := func(body string) {
		t.Helper()
		code, _ := b.tellRaw([]byte(body))
		require.Equal(t, http.StatusBadRequest, code, body)
	}
	f(`{`)
	f(`{"node":"../x","instance":"i1"}`)
	f(`{"node":"n1","instance":"i1","conditions":[{"alert":"KubeAPIDown","severity":"critical"}]}`)
	f(`{"node":"n1","instance":"i1","conditions":[{"alert":"CrowsnestX","severity":"page"}]}`)
	f(`{"node":"n1","instance":"i1","conditions":[{"alert":"CrowsnestX","severity":"info","labels":{"alertname":"KubeAPIDown"}}]}`)
	f(`{"node":"n1","instance":"i1","rules":{"A":"xyz"}}`)
	f(`{"node":"n1","instance":"i1","conditions":[` + strings.TrimSuffix(strings.Repeat(`{"alert":"CrowsnestX","severity":"info"},`, wire.MaxConditions+1), ",") + `]}`)
	code, _ := b.tellRaw(make([]byte, wire.MaxReport+1))
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Empty(t, b.s.Status().Conditions)
}
