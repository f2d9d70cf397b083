package component

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// Loss explains a reason for lost lines.
type Loss struct{ Severity, What, Fix string }

// Losses are the explanations of losses, by reason.
type Losses map[string]Loss

//go:embed losses.json
var lossesFile []byte

var explanations = sync.OnceValue(func() (out Losses) {
	if err := json.Unmarshal(lossesFile, &out); err != nil {
		panic(err) // cannot happen, because a test reads the file
	}
	return out
})

func explainLosses(reasons ...string) Losses {
	out := Losses{}
	for _, reason := range reasons {
		out[reason] = explanations()[reason]
	}
	return out
}
