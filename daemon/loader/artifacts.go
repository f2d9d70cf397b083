package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/state"
)

// artifactFolder, in the folder of the state, has a copy of each artifact that is in
// force, in a folder of its own. A start needs no registry.
const artifactFolder = "artifacts"

// copyFolder returns the folder of an artifact's copy.
func copyFolder(c *config.Config, repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return filepath.Join(c.Storage.Path, artifactFolder, hex.EncodeToString(sum[:8]))
}

// Installed returns the copy of an artifact; nil if there is none that is usable.
func Installed(c *config.Config, a *config.Artifact) *artifact.Artifact {
	payload, _, err := state.Load(copyFolder(c, a.Ref().Repository()))
	if err != nil || payload == nil {
		return nil
	}
	out, err := artifact.Decode(payload)
	if err != nil {
		return nil
	}
	return out
}

// Install makes next the copy of an artifact: the next load puts it in force. After a
// kill the copy is the previous one or next.
func Install(c *config.Config, a *config.Artifact, next *artifact.Artifact) error {
	payload, err := next.Encode()
	if err != nil {
		return err
	}
	return state.Save(copyFolder(c, a.Ref().Repository()), payload)
}

// Copies describes the copies that are usable, by repository.
func Copies(c *config.Config) map[string]artifact.Info {
	out := map[string]artifact.Info{}
	for i := range c.Rules.Artifacts {
		a := &c.Rules.Artifacts[i]
		if installed := Installed(c, a); installed != nil {
			out[a.Ref().Repository()] = installed.Info
		}
	}
	return out
}

// refusal records that a version was refused as a shadow.
type refusal struct {
	Digest, Why string
	Shadow      config.Shadow // a changed one judges again
}

func refusalFolder(c *config.Config, a *config.Artifact) string {
	return copyFolder(c, a.Ref().Repository()) + "-refused"
}

// Refuse records why a version of an artifact was refused as a shadow.
func Refuse(c *config.Config, a *config.Artifact, digest, why string) error {
	payload, err := json.Marshal(refusal{digest, why, *a.Shadow})
	if err != nil {
		return err
	}
	return state.Save(refusalFolder(c, a), payload)
}

// Refused returns why a version of an artifact was refused as a shadow; "": it was not, or
// the keys of the shadow have changed since.
func Refused(c *config.Config, a *config.Artifact, digest string) string {
	payload, _, err := state.Load(refusalFolder(c, a))
	var r refusal
	if err != nil || payload == nil || json.Unmarshal(payload, &r) != nil || r.Digest != digest || r.Shadow != *a.Shadow {
		return ""
	}
	return r.Why
}

// Missing returns the repositories of the artifacts without a copy.
func Missing(c *config.Config) []string {
	var out []string
	for i := range c.Rules.Artifacts {
		if a := &c.Rules.Artifacts[i]; Installed(c, a) == nil {
			out = append(out, a.Ref().Repository())
		}
	}
	return out
}

// lost returns the packs in force of the artifacts whose copy was lost, by repository.
func (l *Loader) lost(c *config.Config) map[string][]rules.File {
	out := map[string][]rules.File{}
	for _, repository := range Missing(c) {
		for _, f := range l.InForce() {
			if strings.HasPrefix(f.Name, repository+"/") {
				out[repository] = append(out[repository], f)
			}
		}
	}
	return out
}

// filesOf returns the packs of an artifact under names that are unique among all files.
func filesOf(repository string, a *artifact.Artifact) []rules.File {
	if a == nil {
		return nil
	}
	out := slices.Clone(a.Files)
	for i := range out {
		out[i].Name = repository + "/" + out[i].Name
	}
	return out
}

// stamps changes when the copy of an artifact does. It does not read the copies.
func stamps(c *config.Config) string {
	out := ""
	for i := range c.Rules.Artifacts {
		repository := c.Rules.Artifacts[i].Ref().Repository()
		entries, _ := os.ReadDir(copyFolder(c, repository)) // none: there is no copy
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				out += fmt.Sprintf("%s %s %d %d\n", repository, e.Name(), info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return out
}

// Try returns the rules as they would be with next in place of an artifact's copy. It
// changes nothing. The error says why next cannot be put in force.
func (l *Loader) Try(c *config.Config, a *config.Artifact, next *artifact.Artifact) (*rules.Set, error) {
	repository := a.Ref().Repository()
	fresh := filesOf(repository, next)
	if _, err := Check(fresh); err != nil {
		return nil, err
	}
	instead := l.lost(c)
	instead[repository] = fresh
	files, _ := ruleFiles(c, instead)
	names := map[string]bool{}
	for _, f := range fresh {
		names[f.Name] = true
	}
	// Test next against the other files as they are in force: a file that is being
	// edited must not make an artifact look bad.
	files = slices.DeleteFunc(files, func(f rules.File) bool {
		_, known := l.good[f.Name]
		return !known && !names[f.Name]
	})
	for i, f := range files {
		if good := l.good[f.Name]; good.text != nil && !names[f.Name] {
			files[i].Data = good.text
		}
	}
	docs, problems := ParseFiles(files)
	set, found := buildConfigured(c, docs)
	if errs := append(problems, found...).Errors(); len(errs) > 0 {
		errs.Sort()
		return nil, fmt.Errorf("it does not fit the other rules:\n%w", errs)
	}
	return set, nil
}
