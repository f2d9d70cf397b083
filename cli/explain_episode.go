package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"text/tabwriter"

	"crowsnest/cli/internal/show"
	"crowsnest/redact"
	"crowsnest/web"
)

var fingerprintText = regexp.MustCompile(`^[0-9a-f]{16}$`)

// explainEpisode prints the timeline of an episode of a running daemon.
func (c *cli) explainEpisode(ctx context.Context, f explainFlags, args []string) error {
	if len(args) > 0 || f.line != "" {
		return usageErrorf("--episode cannot be combined with a rule or --line")
	}
	if !fingerprintText.MatchString(f.episode) {
		return usageErrorf("--episode %q is not a fingerprint of 16 hexadecimal digits; list them with crowsnest get episodes", f.episode)
	}
	data, err := c.fetch(ctx, f.daemon, "episodes/"+f.episode+"/timeline", nil)
	if err != nil {
		return err
	}
	return showTimeline(c.out, data)
}

// showTimeline writes a timeline for people.
func showTimeline(w io.Writer, data []byte) error {
	var tl web.Timeline
	if err := json.Unmarshal(data, &tl); err != nil {
		return err
	}
	e := tl.Episode
	fmt.Fprintf(w, "%s %s: %s\n\n", redact.Sanitise(e.Alert), e.State, redact.Sanitise(show.Where(e.Labels)))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, ev := range tl.Events {
		at := "now"
		if ev.At != nil {
			at = moment(ev.At)
		}
		fmt.Fprintf(t, "%s\t%s\n", at, redact.Sanitise(ev.Text))
		if ev.Line != "" {
			fmt.Fprintf(t, "\t  %s\n", redact.Sanitise(ev.Line))
		}
	}
	if tl.Skipped > 0 {
		fmt.Fprintf(t, "\t%d events between the first and the newest were not kept\n", tl.Skipped)
	}
	return t.Flush()
}
