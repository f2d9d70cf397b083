package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"crowsnest/agent/wire"
	"crowsnest/rules"
)

const rulesError = "rules of namespaces: "

// ownedRules holds the rule files of namespaces that the aggregator offers. It is guarded by Sink.mu.
type ownedRules struct {
	answer    wire.RulesAnswer // newest files; its ID is empty until the first files were received
	notBefore time.Time        // earliest time of the next attempt after a failure
}

// OwnedRules returns the rule files of namespaces that the aggregator offers, and an identifier of them. The
// identifier is empty until the aggregator was asked once. The files are read-only.
func (s *Sink) OwnedRules() (id string, files []rules.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned.answer.ID, s.owned.answer.Files
}

// fetchRules fetches the rule files of namespaces if the aggregator offers other ones than the agent has.
func (w *sender) fetchRules(ctx context.Context, offered string) {
	s := w.s
	s.mu.Lock()
	due := offered != "" && offered != s.owned.answer.ID && !s.now().Before(s.owned.notBefore)
	s.mu.Unlock()
	if !due {
		return
	}
	var answer wire.RulesAnswer
	a := w.post(ctx, wire.RulesPath, "application/json", nil)
	if a.err == nil && (json.Unmarshal(a.body, &answer) != nil || answer.ID == "" || slices.ContainsFunc(answer.Files, isForeign)) {
		a.err = errors.New("the response with rules does not come from crowsnest")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.err != nil {
		s.stats.ReportError, s.owned.notBefore = rulesError+a.err.Error(), s.now().Add(reportRetry)
		return
	}
	s.owned.answer = answer
	if strings.HasPrefix(s.stats.ReportError, rulesError) {
		s.stats.ReportError = ""
	}
}

// isForeign reports whether a file does not belong to a namespace. The aggregator cannot replace the operator's rules.
func isForeign(f rules.File) bool {
	return f.Namespace == "" || !strings.HasPrefix(f.Name, rules.OwnedPrefix+f.Namespace+"/")
}
