package web

import (
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes"
	"crowsnest/redact"
)

// tameText makes text safe to show. It keeps line breaks, and removes characters that are invisible, change the
// direction of text or control a terminal.
func tameText(text string) string {
	if !strings.Contains(text, "\n") {
		return redact.Sanitise(text)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return strings.Join(lines, "\n")
}

// shownEpisode returns an episode in the form for people. Its log lines are safe to show. The labels in more are added
// unless the episode has a label of the same name. The other texts are already safe.
func shownEpisode(e episodes.Episode, more map[string]string) episodes.Episode {
	e.State = e.ShownState()
	e.Line, e.FirstLine = e.Line.Map(tameText), e.FirstLine.Map(tameText)
	cloned := false
	for _, name := range []string{"line", "first_line"} {
		if text := e.Annotations[name]; tameText(text) != text {
			if !cloned {
				e.Annotations, cloned = maps.Clone(e.Annotations), true
			}
			e.Annotations[name] = tameText(text)
		}
	}
	return withExternal(e, more)
}

// shownView returns a view whose log lines are safe to show and whose episodes have the external labels of the
// configuration. So pages, filters and the API show an alert like Alertmanager does. The fingerprint remains that of
// the labels without external labels.
func shownView(v View) View {
	list, timeline := v.Episodes, v.Timeline
	v.Episodes = func() []episodes.Episode {
		more, out := externalLabels(v), slices.Clone(list())
		for i := range out {
			out[i] = shownEpisode(out[i], more)
		}
		return out
	}
	v.Timeline = func(fingerprint episodes.Fingerprint) (episodes.Timeline, bool) {
		t, ok := timeline(fingerprint)
		t.Episode = shownEpisode(t.Episode, externalLabels(v))
		for i := range t.Events {
			t.Events[i].Line = t.Events[i].Line.Map(tameText)
		}
		return t, ok
	}
	return v
}
