package server

import (
	"context"
	"encoding/json"

	"crowsnest/agent/wire"
	"crowsnest/rules"
)

// OfferRules replaces the rule files of namespaces that the agents load. The files must not change afterwards.
func (s *Source) OfferRules(files []rules.File) {
	text, _ := json.Marshal(files) // strings and bytes can always be encoded
	s.withLock(func() { s.ownedRules = wire.RulesAnswer{ID: wire.Digest(text), Files: files} })
}

func (h *handler) handleRules(context.Context, []byte, *caller) (any, *refusal) {
	var out wire.RulesAnswer
	h.s.withLock(func() { out = h.s.ownedRules })
	return out, nil
}
