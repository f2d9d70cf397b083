package web

import (
	"maps"
	"strings"

	"crowsnest/episodes"
	"crowsnest/history"
	"crowsnest/redact"
)

// tame makes text safe to show: it keeps the line breaks, and removes whatever
// changes the direction of text, is invisible or controls a terminal.
func tame(text string) string {
	if !strings.Contains(text, "\n") {
		return redact.Sanitise(text)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = redact.Sanitise(lines[i])
	}
	return strings.Join(lines, "\n")
}

// shown returns an episode in the state for people, with its log lines made safe to show; its
// other texts already are.
func shown(e episodes.Episode) episodes.Episode {
	e.State = e.Shown()
	e.Line, e.First = e.Line.Map(tame), e.First.Map(tame)
	cloned := false
	for _, name := range []string{"line", "first_line"} {
		if text := e.Annotations[name]; tame(text) != text {
			if !cloned {
				e.Annotations, cloned = maps.Clone(e.Annotations), true
			}
			e.Annotations[name] = tame(text)
		}
	}
	return e
}

// complete returns a view that has a history, which may be empty.
func complete(v View) View {
	if v.History == nil {
		v.History = func() []*history.Entry { return nil }
	}
	if v.Past == nil {
		v.Past = func(episodes.Fingerprint) []*history.Entry { return nil }
	}
	return v
}

// tamed returns a view whose log lines are safe to show.
func tamed(v View) View {
	list, timeline := v.Episodes, v.Timeline
	v.Episodes = func() []episodes.Episode {
		all := list()
		out := make([]episodes.Episode, len(all))
		for i, e := range all {
			out[i] = shown(e)
		}
		return out
	}
	v.Timeline = func(of episodes.Fingerprint) (episodes.Timeline, bool) {
		t, ok := timeline(of)
		t.Episode = shown(t.Episode)
		for i := range t.Events {
			t.Events[i].Line = t.Events[i].Line.Map(tame)
		}
		return t, ok
	}
	return v
}
