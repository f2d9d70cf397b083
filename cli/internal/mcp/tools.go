package mcp

const bounds = "An answer is bounded: truncated and next_offset say what is missing."

// addDaemonTools registers the tools that ask the daemon.
func (s *Server) addDaemonTools() {
	add(s, tool{
		name: "alerts", title: "Open alerts", rest: "The tool case has more of one alert; crowsnest get episodes -o json prints whole texts.",
		text: describe("Lists the open alerts of the running crowsnest daemon: known failures of Kubernetes controllers and nodes, found in logs.",
			"No alerts do not mean that all is well: read verdict and seen. Heartbeats are left out.", data, bounds),
		choices: map[string][]string{"states": {"pending", "firing", "unwatched", "resolved"}},
	}, s.alerts)
	add(s, tool{
		name: "episode", title: "History of one alert", rest: "The tool case has more; crowsnest get episode prints whole texts.",
		text: describe("Returns one open or recently ended alert with its timeline: lines that were counted, periods on hold, which receivers were notified, and what ended it.", data, bounds),
	}, s.episode)
	add(s, tool{
		name: "case", title: "Case file of one alert", rest: "crowsnest case prints the whole file.",
		text:    describe("Makes the case file of one open or recently ended alert, to forward and keep: what failed, what else was open there, the lines of all sources in order of time, versions, what to do, and what could not be seen.", data, bounds),
		choices: map[string][]string{"format": {"markdown", "json"}},
	}, s.caseFile)
	add(s, tool{
		name: "coverage", title: "What the daemon can see", rest: "crowsnest get sources -o json and get rules -o json print all of it.",
		text: describe("Lists the sources of the daemon with the time up to which each was read, and everything that it cannot see:",
			"sources that are down, lines that were lost, logs that cannot be read, conclusions on hold, and rules whose lines nobody reads.", bounds),
	}, s.coverage)
}

// addRuleTools registers the tools about rules, which also work without a daemon.
func (s *Server) addRuleTools() {
	from := []string{fromDaemon, fromPacks}
	add(s, tool{
		name: "rules", title: "Rules", rest: "The tool rule has all of one rule.",
		text:    describe("Lists rules: those that the daemon evaluates, with their health and how often they matched, or those of the local packs.", bounds),
		choices: map[string][]string{"from": from, "health": {"ok", "blind", "unseen", "held", "given_up", "inactive", "disabled"}},
	}, s.rules)
	add(s, tool{
		name: "rule", title: "One rule", rest: "crowsnest rules show prints all of it.",
		text:    describe("Explains one rule: what it matches, when it fires and ends, and what to do about the failure.", bounds),
		choices: map[string][]string{"from": from},
	}, s.rule)
	add(s, tool{
		name: "explain", title: "Explain a line", rest: "crowsnest explain --line prints all of it.",
		text: describe("Explains which local rules match one line of a log, or part by part why a named rule matches it or not. Secrets in the line are redacted in the answer.", data, bounds),
	}, s.explain)
	add(s, tool{
		name: "replay", title: "Try rules on lines", rest: "crowsnest replay and crowsnest case print all of it.",
		text: describe("Evaluates lines of a log, given in the call or in a file that the user has allowed, with the local packs or with rules given in the call, in the time of the lines.",
			"Returns the alerts that would have fired. It sends nothing, and changes and writes no file.", data, bounds),
	}, s.replay)
}
