package web

import (
	"maps"
	"slices"
	"strings"

	"crowsnest/episodes"
	"crowsnest/redact"
)

// tameText makes text safe to show. It keeps line breaks and removes everything that changes
// the direction of text, is invisible or controls a terminal.
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

// shownEpisode returns an episode as people see it, with its log lines made safe to show, and with
// the labels of more that it lacks. The other texts are already safe.
func shownEpisode(e episodes.Episode, more map[string]string) episodes.Episode {
	e.State = e.ShownState()
	e.Line, e.First = e.Line.Map(tameText), e.First.Map(tameText)
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

// shownView returns a view whose log lines are safe to show, and whose episodes have the external
// labels of the configuration. So pages, filters and the API show an alert as Alertmanager does.
// Its fingerprint stays the fingerprint of the labels without external ones.
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
