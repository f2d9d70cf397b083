package daemon

import (
	"encoding/json"
	"path/filepath"

	"crowsnest/rules"
	"crowsnest/state"
)

// lastGoodFolder, in the folder of the state, holds the rule files that were last in
// force, so that a pack that breaks before a restart stays in force as well.
const lastGoodFolder = "rules"

func (s *saver) saveRules(files []rules.File) {
	if !s.keeps() {
		return
	}
	payload, err := json.Marshal(files)
	if err == nil {
		err = state.Save(filepath.Join(s.dir, lastGoodFolder), payload)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("the rules in force cannot be saved; a restart needs all of them to be good")
	}
}

// lastGoodRules returns the saved rule files; nil if there are none that are usable.
func lastGoodRules(dir string) []rules.File {
	if dir == "" {
		return nil
	}
	payload, _, err := state.Load(filepath.Join(dir, lastGoodFolder))
	if err != nil || payload == nil {
		return nil
	}
	var files []rules.File
	if json.Unmarshal(payload, &files) != nil {
		return nil
	}
	return files
}
