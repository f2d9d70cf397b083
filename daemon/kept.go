package daemon

import (
	"encoding/json"
	"path/filepath"

	"crowsnest/rules"
	"crowsnest/state"
)

// keptFolder, below the folder of the state, holds the rule files that were last
// in force, so that a broken pack costs nothing over a restart either.
const keptFolder = "rules"

// keepRules writes the rule files that are in force.
func (s *saver) keepRules(files []rules.File) {
	if !s.keeps() {
		return
	}
	payload, err := json.Marshal(files)
	if err == nil {
		err = state.Save(filepath.Join(s.dir, keptFolder), payload)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("the rules in force cannot be kept; a restart needs all of them to be good")
	}
}

// keptRules reads them back; nil where there are none, or none that are usable.
func keptRules(dir string) []rules.File {
	if dir == "" {
		return nil
	}
	payload, _, err := state.Load(filepath.Join(dir, keptFolder))
	if err != nil || payload == nil {
		return nil
	}
	var files []rules.File
	if json.Unmarshal(payload, &files) != nil {
		return nil
	}
	return files
}
