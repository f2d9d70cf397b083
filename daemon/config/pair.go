package config

import (
	"strings"

	"crowsnest/agent/client"
	"crowsnest/daemon/component"
)

// checkPair finds the problems of high_availability.
func (c *Config) checkPair(k *checker) {
	ha := c.HighAvailability
	if ha == nil || ha.Keys.IsUnreadable() {
		return
	}
	for _, err := range component.SplitErrors(ha.Validate()) {
		message, fix := component.SplitFix(err.Error())
		at := ha.Keys.At
		if key, _, named := strings.Cut(message, ":"); named && ha.Keys.Has(key) {
			at = ha.Keys.Value(key)
		}
		k.addProblem(at, "bad-value", message, fix)
	}
	if len(component.SettingsOf[client.Config](c.Sinks)) > 0 {
		k.addProblem(c.Keys.Key("high_availability"), "bad-value", "high_availability: an agent cannot have a standby, because it reads the logs of its own node", "remove the section, or sinks.upstream to make this an aggregator")
	}
	if c.Keys.Has("storage") && c.Storage.Path == "" {
		k.addProblem(c.Keys.Key("high_availability"), "bad-value", "high_availability: a standby keeps the state of the leader in storage.path, which is empty", "set storage.path")
	}
}
