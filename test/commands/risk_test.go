package commands

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// families are the words with which a sentence speaks of a risky command, by the last word of
// its name. Who deletes a pod restarts it.
var families = []struct {
	commands string
	words    string
}{
	{`delete|remove|rm|rmi|del|terminate-instances|uninstall|release-address|session\.rm`, `delet\w*|remov\w*|terminat\w*|discard\w*|restart\w*`},
	{`drain`, `drain\w*|evict\w*`},
	{`scale|pause`, `scal\w*|replicas?|stop\w*|paus\w*`},
	{`restart|reboot|stop|kill|undo|rollback|upgrade|apply|replace|renew|reset|failover|move-leader|abort|clean`, `restart\w*|reboot\w*|stop\w*|replac\w*|roll\w*|upgrad\w*|renew\w*|reset\w*|fail\w*over|leader\w*|abort\w*|clean\w*|apply|applies`},
	{`move`, `mov\w*|paus\w*`},
	{`defrag|compact|compaction|disarm|add`, `defrag\w*|compact\w*|alarm\w*|disarm\w*|block\w*|member\w*`},
}

// condition is a word that says when a command is right, consequence one that says what it
// does to what runs.
var (
	condition   = regexp.MustCompile(`(?i)\b(only|if|unless|once|after|before|first|when|while|until|where|never|not|make sure|check|one at a time|one by one)\b`)
	consequence = regexp.MustCompile(`(?i)\b(stops?|interrupts?|los[et]\w*|evicts?|blocks?|unavailable|away|down|offline|risks?|downtime|again|new|kills?|ends?|moves?|restarts?|restarted|replaces?|replaced|recreat\w*|nothing|no longer|cannot|without|quorum|data|pauses?|fails?|takes?|leaves?|removes?|gone|slow\w*|waits?)\b`)
)

// minWords is how many words a warning has at least.
const minWords = 8

// A step that deletes, drains, restarts or scales something comes after a sentence that says
// when that is right, and one that says what it does: in the summary, in the comment of an
// earlier step, or in a line of its own above the command. The sentence speaks of the action.
func TestRisks(t *testing.T) {
	all := programs(t)
	for _, r := range shipped(t) {
		before := ""
		if r.Remediation.Summary != nil {
			before = r.Remediation.Summary.Source()
		}
		for i, step := range r.Remediation.Steps {
			f, err := parse(source(step))
			if err != nil {
				continue // TestCommands reports it
			}
			above := before + ". " + commentsAbove(source(step))
			for _, words := range commandsOf(f) {
				found, _ := checkCommand(all, words)
				for _, c := range found {
					if c.risk == "risky" && !slices.Contains(words, "--dry-run") {
						if missing := warning(c.name, above); missing != "" {
							t.Errorf("%s, step %d: %s\n  %s\n  before it: %s", r.Alert, i+1, missing, step.Source(), above)
						}
					}
				}
			}
			before += ". " + comments(f)
		}
	}
}

// commentsAbove returns the comments in lines of their own above a command.
func commentsAbove(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") {
			break
		}
		out = append(out, strings.TrimSpace(line[1:]))
	}
	return strings.Join(out, " ")
}

// warning returns what the sentences before a risky command lack, "" if nothing.
func warning(name, text string) string {
	verb := name[strings.LastIndexByte(name, ' ')+1:]
	words := ""
	for _, f := range families {
		if regexp.MustCompile(`^(` + f.commands + `)$`).MatchString(verb) {
			words = f.words
		}
	}
	if words == "" {
		return "no family of words for " + name + " in the test"
	}
	about := regexp.MustCompile(`(?i)\b(` + words + `)\b`)
	when, what, size := false, false, 0
	for _, s := range sentences(text) {
		rest := about.ReplaceAllString(s, "") // the verb alone is no consequence
		if !about.MatchString(s) {
			continue
		}
		size += len(strings.Fields(s))
		when = when || condition.MatchString(s)
		what = what || consequence.MatchString(rest)
	}
	switch {
	case size == 0:
		return "no sentence before `" + name + "` speaks of it: say when it is right and what it does to what runs"
	case !when:
		return "no sentence before `" + name + "` says when it is right"
	case !what:
		return "no sentence before `" + name + "` says what it does to what runs"
	case size < minWords:
		return "the warning before `" + name + "` is too short"
	}
	return ""
}

var sentenceEnd = regexp.MustCompile(`[.;:] +|\n`)

func sentences(text string) []string { return sentenceEnd.Split(text, -1) }

// The check accepts a warning and refuses what only looks like one.
func TestWarning(t *testing.T) {
	f := func(name, text string, ok bool) {
		t.Helper()
		if got := warning(name, text); (got == "") != ok {
			t.Errorf("%s after %q: %q", name, text, got)
		}
	}
	f("kubectl delete", "Delete the pod only if another replica runs: it is away for a minute until the new one is ready.", false)
	f("kubectl delete", "Delete the pod only if another replica runs, because its volume is lost where persistence is off.", true)
	f("kubectl delete", "Delete the pod.", false)
	f("kubectl delete", "Only if nothing else helps, and the data is lost.", false)
	f("kubectl drain", "Draining evicts all pods of the node; drain it only when the others have room, because pods without a controller are gone.", true)
	f("kubectl drain", "Look at the node first.", false)
	f("kubectl scale", "Scale the adder to 0 only after you have listed the finalizers, because nothing removes them while it is stopped.", true)
	f("etcdctl defrag", "Defragment one member at a time and only while all are healthy, because each member takes no requests meanwhile.", true)
}
