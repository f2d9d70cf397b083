package discover

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxName bounds the length of an alert name, and maxComponent the length of its first part.
const (
	maxName      = 48
	maxComponent = 24
)

// genericNames are names of containers that do not identify a component.
var genericNames = []string{
	"manager", "controller", "controller-manager", "operator", "main", "app", "server", "agent", "daemon", "container", "service", "default",
}

// ComponentOf returns the component of the streams with these labels, in CamelCase. It returns
// "" if the labels do not name a component.
func ComponentOf(labels map[string]string) string {
	label, value := SelectorOf(labels)
	value = strings.TrimSuffix(value, ".service")
	if label == "" || slices.Contains(genericNames, value) {
		value = ""
		if name, ok := strings.CutSuffix(labels["namespace"], "-system"); ok {
			value = name
		}
	}
	return camel(words(value), maxComponent)
}

// fillers are words of prose that an alert name does not need.
var fillers = []string{
	"a", "an", "the", "is", "are", "was", "were", "to", "of", "for", "in", "on", "at", "by", "with", "from", "and", "has", "have", "been", "be",
	"this", "that", "it", "its", "yet", "still", "while", "when", "as",
}

// attempts are phrases with which a message begins that something failed.
var attempts = [][]string{
	{"failed", "to"}, {"failure", "to"}, {"unable", "to"}, {"cannot"}, {"can't"}, {"could", "not"}, {"couldn't"}, {"can", "not"}, {"error"}, {"errors"}, {"failed"},
}

// nonObjects are labels of objects that do not show the kind of the object.
var nonObjects = []string{"object", "name", "key", "lock", "request", "resource", "kind", "controller", "queue"}

// AlertName derives the name of an alert from the cause that a line states. It consists of the
// component, the kind of the object, and what is wrong with it, in CamelCase. If the name is in
// taken, a number is appended. The result is added to taken in lower case.
func AlertName(component string, p *Proposal, taken map[string]bool) string {
	all := words(p.nameText())
	failed := false
	for _, a := range attempts {
		if len(all) > len(a) && slices.EqualFunc(all[:len(a)], a, strings.EqualFold) {
			all, failed = all[len(a):], true
			break
		}
	}
	all = slices.DeleteFunc(all, func(w string) bool { return slices.Contains(fillers, strings.ToLower(w)) })
	var j judgement
	j.judge([]byte(strings.Join(all, " ")))
	if failed && j.weight == 0 {
		all = append(all[:min(len(all), 4)], "Failed")
	}
	said := func(word string) bool {
		return slices.ContainsFunc(all, func(w string) bool {
			return strings.EqualFold(strings.TrimSuffix(w, "s"), strings.TrimSuffix(word, "s"))
		})
	}
	if p.Object != "" && !slices.Contains(nonObjects, p.Object) && !said(p.Object) {
		all = append([]string{p.Object}, all...)
	}
	// The name of an alert of longhorn-manager need not repeat "Longhorn".
	if len(all) > 2 && component != "" && strings.HasPrefix(strings.ToLower(component), strings.ToLower(all[0])) {
		all = all[1:]
	}
	name := component + camel(all, maxName-len(component))
	if name == component {
		name += "Complaint"
	}
	if !letter(name[0]) {
		name = "Unknown" + name
	}
	unique := name
	for n := 2; taken[strings.ToLower(unique)]; n++ {
		unique = name + strconv.Itoa(n)
	}
	taken[strings.ToLower(unique)] = true
	return unique
}

// nameText returns the text that says what is wrong. It is the last part of the error with a
// word that indicates a failure, or else the last part. If there is no error, it is a part of
// the message.
func (p *Proposal) nameText() string {
	for _, part := range []string{p.err, p.message} {
		last, best := "", ""
		for _, t := range runs(part) {
			if !strings.Contains(t, " ") || transport(strings.ToLower(t)) {
				continue
			}
			var j judgement
			if j.judge([]byte(t)); j.weight > 0 || j.patience&(waits|retries) != 0 {
				best = t
			}
			last = t
		}
		if text := cmp.Or(best, last); text != "" {
			return text
		}
	}
	return p.longestText()
}

// words splits a text into words of ASCII letters and digits.
func words(text string) []string {
	all := strings.FieldsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !letterOrDigit(byte(r)) && r != '\'' })
	return slices.DeleteFunc(all, func(w string) bool { return strings.Trim(w, "'") == "" })
}

// camel joins words in CamelCase, up to n bytes. It drops leading words that do not begin with
// a letter.
func camel(words []string, n int) string {
	var b strings.Builder
	for _, w := range words {
		w = strings.ReplaceAll(w, "'", "")
		if b.Len() == 0 && !letter(w[0]) {
			continue
		}
		if b.Len() > 0 && b.Len()+len(w) > n {
			break
		}
		b.WriteString(strings.ToUpper(w[:1]) + w[1:min(len(w), max(n, 1))])
	}
	return b.String()
}
