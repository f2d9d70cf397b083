package loader

import (
	"encoding/json"
	"path/filepath"

	"crowsnest/daemon/state"
	"crowsnest/rules"
)

// lastGoodFolder is the subfolder of the state folder with the rule files that were last active. If a pack becomes
// invalid while the daemon is stopped, its last valid version is used after the restart.
const lastGoodFolder = "rules"

// SaveLastGood saves the active rule files in the folder of the state.
func SaveLastGood(dir string, files []rules.File) error {
	payload, err := json.Marshal(files)
	if err != nil {
		return err
	}
	return state.Save(filepath.Join(dir, lastGoodFolder), payload)
}

// LastGood returns the saved rule files, or nil if none are usable.
func LastGood(dir string) []rules.File {
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
