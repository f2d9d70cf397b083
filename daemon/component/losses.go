package component

// explanations explains every reason.
var explanations = Losses{
	"agent_gap": {
		"warning", "the saved state of this aggregator was lost or too old, and the agent no longer has the missing hits",
		"Let the storage of the aggregator (storage.path) outlive the pod. Alerts that were open fire again with their next line.",
	},
	"deleted": {
		"warning", "a file was deleted before it was read to its end",
		"Check whether crowsnest lacks CPU (crowsnest_source_lag_seconds), and whether the kubelet keeps logs long enough (containerLogMaxSize, containerLogMaxFiles).",
	},
	"events_expired": {
		"warning", "Events were not read for more than an hour, and API servers keep an Event for an hour by default",
		"Find out why crowsnest was down, or could not reach the API server, for so long.",
	},
	"events_unreadable": {
		"warning", "the API server sent an Event in an unknown format, which was skipped",
		"Check the version of the API server, and whether something between it and crowsnest changes its answers.",
	},
	"gap": {
		"warning", "lines after the last saved position were rotated away or overwritten while crowsnest was not running",
		"Find out why crowsnest was down for so long, and whether the kubelet keeps logs long enough (containerLogMaxSize, containerLogMaxFiles).",
	},
	"gzip": {
		"warning", "a compressed file is damaged",
		"Check the file and the disk.",
	},
	"journal_damaged": {
		"warning", "entries of the systemd journal are damaged, as after a crash of the node or on a faulty disk",
		"Check the file with journalctl --verify --file FILE, and the disk.",
	},
	"objects": {
		"warning", "there are more objects than max_objects, and some of the namespace that has the most are not watched",
		"Look at the page Sources for the namespaces. Raise max_objects of the source objects, name fewer kinds in kinds, or bound what the namespace may create (ResourceQuota).",
	},
	"outage": {
		"warning", "Loki was unreachable, or crowsnest was not running, for more than a day, and older lines were skipped",
		"Run crowsnest replay over the range if it matters.",
	},
	"parts": {
		"info", "an object has more than 64 conditions or containers, and those beyond are not watched",
		"None, unless the object is one of yours: find out what writes so many conditions.",
	},
	"removed": { // this is common during upgrades
		"info", "the logs of a container were deleted before they were read to their end, most likely with its pod while crowsnest was not running",
		"None if crowsnest was restarted or the node was busy.",
	},
	"restarts": {
		"warning", "a container was restarted, and the API no longer has the end of an earlier instance",
		"None if crowsnest was down or the container restarts all the time. The source kubelet reads all instances.",
	},
	"ties": {
		"warning", "more lines of one stream have the same timestamp than one response of Loki can hold",
		"Raise max_entries_limit_per_query of the tenant, or configure the log agent to keep the timestamps of the lines.",
	},
	"too_large": {
		"warning", "a line in Loki is larger than 8 MiB",
		"Lower max_line_size of Loki.",
	},
	"truncated": {
		"warning", "a file was truncated, and there is no copy of it in the same folder",
		"Rotate logs by renaming them, or keep the copy of copytruncate in the same folder.",
	},
	"unreadable": {
		"warning", "Loki sent a response in an unknown format",
		"Check proxies between crowsnest and Loki, and the version of Loki.",
	},
	"unreadable_file": {
		"warning", "a rotated file cannot be read, and was skipped in favor of the logs after it",
		"Check the permissions of the file and the disk.",
	},
	"vacuumed": {
		"warning", "entries of the systemd journal were removed before they were read, or journald could not write them",
		"Find out why crowsnest was down for so long, or raise SystemMaxUse in journald.conf; if the disk was full, free space.",
	},
}

// explainLosses returns the explanations of these reasons.
func explainLosses(reasons ...string) Losses {
	out := Losses{}
	for _, reason := range reasons {
		out[reason] = explanations[reason]
	}
	return out
}
