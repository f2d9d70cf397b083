package cli

import (
	"context"
	"regexp"

	"crowsnest/cli/internal/show"
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
	return show.Timeline(c.out, data)
}
