package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const readmeHead = `# crowsnest

The chart installs crowsnest, which follows the logs of Kubernetes controllers, decides which known failures are open, and notifies
Alertmanager.

` + "```" + `
helm install crowsnest oci://registry.example.org/crowsnest/charts/crowsnest --namespace crowsnest --create-namespace \
  --set cluster=my-cluster --set 'alertmanager.urls={http://alertmanager-0.alertmanager.monitoring:9093}'
` + "```" + `

[The guide](https://github.com/OWNER/crowsnest/blob/main/docs/deploy.md) says what to prepare and how to check the installation, and
[the configuration](https://github.com/OWNER/crowsnest/blob/main/docs/configuration.md) what belongs below ` + "`agent.config` and `aggregator.config`" + `.

## Values

| Value | Default | Meaning |
|---|---|---|
`

// The README of the chart is equal to its values. With UPDATE_SNAPSHOTS=1, as in make chart, this test writes it.
func TestChartReadme(t *testing.T) {
	text, err := os.ReadFile(chartDir + "/values.yaml")
	require.NoError(t, err)
	var doc yaml.Node
	require.NoError(t, yaml.Unmarshal(text, &doc))
	var want strings.Builder
	want.WriteString(readmeHead)
	writeValues(t, &want, "", doc.Content[0])
	path := chartDir + "/README.md"
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile(path, []byte(want.String()), 0o600))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err, "run make chart")
	require.Equal(t, want.String(), string(got), "run make chart")
}

// writeValues writes a row for each value. A mapping that has keys of its own is a row without a default.
func writeValues(t *testing.T, to *strings.Builder, prefix string, values *yaml.Node) {
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		name := prefix + key.Value
		// A paragraph of its own above the first key introduces the file.
		paragraphs := strings.Split(key.HeadComment, "\n\n")
		comment := strings.NewReplacer("# ", "", "#", "", "\n", " ", "|", `\|`).Replace(paragraphs[len(paragraphs)-1])
		nested := value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Content[0].HeadComment != ""
		fallback := ""
		if !nested {
			var v any
			require.NoError(t, value.Decode(&v))
			b, err := json.Marshal(v)
			require.NoError(t, err)
			fallback = "`" + strings.ReplaceAll(string(b), "|", `\|`) + "`"
		}
		fmt.Fprintf(to, "| `%s` | %s | %s |\n", name, fallback, strings.Join(strings.Fields(comment), " "))
		if nested {
			writeValues(t, to, name+".", value)
		}
	}
}
