package rules

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"crowsnest/internal/strictyaml"
)

func (d *Document) parseOverrides(doc *strictyaml.Document) {
	d.overrides, d.start = &OverridesFile{}, doc.Start()
	d.problems = append(d.problems, doc.Decode(d.overrides)...)
	o := d.overrides
	if len(o.Overrides) == 0 && o.Keys.IsDecoded("overrides") {
		d.addError(o.Keys.Key("overrides"), "empty-value", "there are no overrides", "add one, or remove the file")
	}
	work := newBudget(false)
	for i := range o.Overrides {
		e := &o.Overrides[i]
		if e.Keys.Pos.IsZero() {
			continue
		}
		if problem, fix := work.addCost(e.expressions()); problem != "" {
			d.addError(e.Keys.Pos, "too-costly", problem, fix)
			return
		}
		d.checkOverride(e)
	}
}

func (d *Document) checkOverride(e *OverrideSyntax) {
	k := &e.Keys
	if _, err := path.Match(ruleGlob(e.Rule), ""); err != nil {
		d.addError(k.Value("rule"), "glob", fmt.Sprintf("%.60q is not a glob", e.Rule), "close the [")
	} else if k.IsDecoded("rule") && ruleGlob(e.Rule) == "" {
		d.addError(k.Value("rule"), "empty-value", "`rule` is empty", "name a rule, a glob or pack:NAME")
	}
	actions := 0
	for _, key := range []string{"set", "add_unless", "disable"} {
		if !k.Lacks(key) {
			actions++
		}
	}
	switch {
	case actions == 0:
		d.addError(k.Key("rule"), "missing-key", "the override has no effect", "add `set`, `add_unless` or `disable`")
	case actions > 1 && k.Has("disable"):
		d.addError(k.Key("disable"), "no-effect", "the override both changes and disables rules", "keep one of them")
	}
	if k.IsDecoded("disable") && strings.TrimSpace(string(e.Disable)) == "" {
		d.addError(k.Value("disable"), "empty-value", "`disable` has no reason", "write the reason: disable: \"edge clusters have one replica\"")
	}
	if e.Set != nil && len(e.Set.Keys.Names()) == 0 && !e.Set.Keys.HasAnyError() {
		d.addError(k.Key("set"), "no-effect", "`set` sets nothing", "name a key and its value")
	}
	if e.Set != nil && e.Set.Enabled == ModeOff {
		d.addWarning(e.Set.Keys.Value("enabled"), "disable-reason", "the override disables rules without a reason", "use disable: \"REASON\"")
	}
	if u := e.AddUnless; u != nil {
		c := &matcherCompiler{}
		c.compileSelector(u.From, &u.Keys, "`from` of "+nameAddUnless)
		c.compileMatcher(&u.Parts, &u.Keys, nameAddUnless, InMessage)
		if u.Keys.Lacks("within") && !k.HasError("add_unless") {
			c.addError(u.Keys.Pos, "needs-within", nameAddUnless+" lacks `within`", fixWithin)
		}
		d.problems = append(d.problems, c.problems...)
	}
}

// ruleGlob returns the glob of an override without the prefix `pack:`. With the prefix, the glob is for names of packs,
// otherwise for names of rules.
func ruleGlob(rule string) string { return strings.TrimPrefix(rule, "pack:") }

func (e *OverrideSyntax) appliesTo(alert, pack string) bool {
	name := alert
	if strings.HasPrefix(e.Rule, "pack:") {
		name = pack
	}
	ok, err := path.Match(ruleGlob(e.Rule), name)
	return ok && err == nil
}

// apply applies the override to a form. The form must not share maps with other forms.
func (e *OverrideSyntax) apply(f *form) {
	if s := e.Set; s != nil {
		s.apply(f)
	}
	if e.AddUnless != nil {
		f.addedUnless = append(slices.Clip(f.addedUnless), e.AddUnless)
		f.origin["unless"] = describeOrigin("override", e.Keys.Key("add_unless"))
	}
	if e.Keys.Has("disable") {
		f.Enabled, f.disabled = ModeOff, string(e.Disable)
		f.origin["enabled"] = describeOrigin("override", e.Keys.Key("disable"))
	}
}

// changesAlerts reports whether the override changes what alerts look like. If it does, the tests of the rule expect
// other alerts than the changed rule raises.
func (e *OverrideSyntax) changesAlerts() bool {
	return e.Set != nil && slices.ContainsFunc([]string{"by", "labels", "annotations", "runbook_url", "symptom_of"}, e.Set.Keys.Has)
}

// apply copies the keys that the override sets to the same keys of the rule. Labels and annotations are merged by name.
func (s *SetSyntax) apply(f *form) {
	names := slices.DeleteFunc(s.Keys.Names(), func(name string) bool { return name == "labels" || name == "annotations" || name == "runbook_url" })
	f.Keys = f.Keys.WithKeys(s.Keys, names...)
	from, to := reflect.ValueOf(*s), reflect.ValueOf(&f.RuleSyntax).Elem()
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if name := field.Tag.Get("yaml"); slices.Contains(names, name) {
			f.origin[name] = describeOrigin("override", s.Keys.Key(name))
			to.FieldByName(field.Name).Set(from.Field(i))
		}
	}
	if slices.Contains(names, "enabled") {
		f.disabled = ""
	}
	f.Labels, f.labelKeys = s.mergeTexts(f, "labels", f.Labels, s.Labels, f.labelKeys)
	f.Annotations, f.annotationKeys = s.mergeTexts(f, "annotations", f.Annotations, s.Annotations, f.annotationKeys)
	if s.Keys.Has("runbook_url") {
		r := &f.RuleSyntax.Remediation
		r.RunbookURL, r.Keys = s.RunbookURL, r.Keys.WithKeys(s.Keys, "runbook_url")
		f.origin["remediation.runbook_url"] = describeOrigin("override", s.Keys.Key("runbook_url"))
	}
}

// mergeTexts merges set into copies of the labels or annotations of a form.
func (s *SetSyntax) mergeTexts(f *form, key string, texts, set map[string]string, keys map[string]*strictyaml.Keys) (map[string]string, map[string]*strictyaml.Keys) {
	if len(set) == 0 {
		return texts, keys
	}
	texts, keys = maps.Clone(texts), maps.Clone(keys)
	if texts == nil {
		texts = map[string]string{}
	}
	for name, text := range set {
		texts[name], keys[name] = text, &s.Keys
		f.origin[key+"."+name] = describeOrigin("override", s.Keys.EntryKey(key, name))
	}
	return texts, keys
}
