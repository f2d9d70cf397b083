package web

import (
	"maps"
	"strings"

	"crowsnest/episodes"
	"crowsnest/history"
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

// shownEpisode returns an episode with its state as people see it, and with its log lines made
// safe to show. The other texts are already safe.
func shownEpisode(e episodes.Episode) episodes.Episode {
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
	return e
}

// completeView returns a view with a history, which is empty if v has none.
func completeView(v View) View {
	if v.History == nil {
		v.History = func() []*history.Entry { return nil }
	}
	if v.Past == nil {
		v.Past = func(episodes.Fingerprint) []*history.Entry { return nil }
	}
	return v
}

// tameView returns a view whose log lines are safe to show.
func tameView(v View) View {
	list, timeline := v.Episodes, v.Timeline
	v.Episodes = func() []episodes.Episode {
		all := list()
		out := make([]episodes.Episode, len(all))
		for i, e := range all {
			out[i] = shownEpisode(e)
		}
		return out
	}
	v.Timeline = func(fingerprint episodes.Fingerprint) (episodes.Timeline, bool) {
		t, ok := timeline(fingerprint)
		t.Episode = shownEpisode(t.Episode)
		for i := range t.Events {
			t.Events[i].Line = t.Events[i].Line.Map(tameText)
		}
		return t, ok
	}
	return v
}
