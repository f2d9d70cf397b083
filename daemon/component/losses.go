package component

import (
	_ "embed"
	"encoding/json"
	"sync"
)

// Loss explains one reason for lost lines, with the severity of the alert, the meaning and the remedy.
type Loss struct{ Severity, What, Fix string }

// Losses maps reasons for lost lines to explanations.
type Losses map[string]Loss

//go:embed losses.json
var lossesFile []byte

var explanations = sync.OnceValue(func() (out Losses) {
	if err := json.Unmarshal(lossesFile, &out); err != nil {
		panic(err) // cannot happen, because a test parses the file
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
