package component

// Labelled returns the labels that sources set by themselves. Files, standard input, the
// kubelet and Loki may have others, which the configuration or Loki sets.
func Labelled() []string {
	return podLabels("node_name", "node", "image", "app", "workload", "unit", "identifier", "transport", "component")
}
