package rules

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/prometheus/common/model"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules/template"
	"crowsnest/rules/versions"
)

// Limits of an alert. Alertmanager accepts more, but people could not read it.
const (
	maxLabels     = 20  // maximum number of labels, including labels that crowsnest adds
	maxLabelValue = 256 // maximum length of a label's value in bytes
)

func (c *compiler) compileTexts() {
	if !strings.HasPrefix(c.origin["verified"], "defaults ") { // checkDefaults has already checked `verified` of the defaults
		c.checkVerified(c.Verified)
	}
	for _, v := range c.Verified {
		c.rule.Verified = append(c.rule.Verified, v.Verified)
	}
	c.compileLabels()
	for _, name := range slices.Sorted(maps.Keys(c.Annotations)) {
		keys := c.annotationKeys[name]
		at := keys.EntryValue("annotations", name)
		if !model.LegacyValidation.IsValidLabelName(name) {
			c.addError(keys.EntryKey("annotations", name), "label-name", fmt.Sprintf("%.60q is not a valid annotation name", name), "use letters, digits and _")
		}
		if t := c.template(c.Annotations[name], at, "annotation `"+name+"`"); t != nil {
			c.rule.Annotations = append(c.rule.Annotations, NamedTemplate{Name: name, Template: t})
		}
	}
	r := &c.RuleSyntax.Remediation
	if !c.Keys.Has("remediation") && !r.Keys.Has("runbook_url") {
		return
	}
	if r.Keys.IsDecoded("summary") {
		c.rule.Remediation.Summary = c.template(r.Summary, r.Keys.Value("summary"), "remediation `summary`")
	}
	for i, step := range r.Steps {
		if t := c.template(step, r.Keys.Item("steps", i), fmt.Sprintf("step %d of `remediation`", i+1)); t != nil {
			c.rule.Remediation.Steps = append(c.rule.Remediation.Steps, t)
		}
	}
	if r.Keys.IsDecoded("runbook_url") {
		c.checkURL(r.RunbookURL, r.Keys.Value("runbook_url"))
		c.rule.Remediation.RunbookURL = r.RunbookURL
	}
	for i := range r.Affects {
		c.checkAffects(&r.Affects[i])
	}
}

func (c *compiler) compileLabels() {
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		keys := c.labelKeys[name]
		own := keys != c.defaults
		if message, fix := badLabel(name); message != "" && own {
			c.addError(keys.EntryKey("labels", name), "label-name", message, fix)
		}
		if i := slices.Index(c.By, name); i >= 0 {
			at := keys.EntryKey("labels", name)
			if !own {
				at = c.Keys.Item("by", i)
			}
			c.addError(at, "label-in-by", fmt.Sprintf("`%s` is both in `labels` and in `by`", name), "remove one of them: names in `by` already become labels of the alert")
		}
		if t := c.labelTemplate(name, c.Labels[name], keys.EntryValue("labels", name)); t != nil {
			c.rule.Labels = append(c.rule.Labels, NamedTemplate{Name: name, Template: t})
		}
	}
	if n := len(c.By) + len(c.Labels) + 3; n > maxLabels {
		at := c.Keys.Key("by")
		if len(c.RuleSyntax.Labels) > 0 && c.Keys.Has("labels") {
			at = c.Keys.Key("labels")
		}
		for _, keys := range c.labelKeys {
			if keys.Key("labels").File() != c.file {
				at = keys.Key("labels")
			}
		}
		c.addError(at, "too-many-labels", fmt.Sprintf("the alert has %d labels, including alertname, severity and resolves, more than %d", n, maxLabels), "move labels that do not identify the alert to annotations")
	}
}

// labelTemplate compiles the template of a label. Labels identify the alert, so they may depend only on the key.
func (c *compiler) labelTemplate(name, text string, pos strictyaml.Pos) *Template {
	c.checkComment(text, pos, name)
	t, err := template.Parse(text)
	if err != nil {
		c.addInvalid(pos, text, "template", "label `"+name+"`", err)
		return nil
	}
	bad := ""
	switch {
	case len(t.Vars()) > 0:
		bad = "$vars." + t.Vars()[0]
	case t.UsesValue():
		bad = "$value"
	case t.UsesLine():
		bad = "$line"
	case t.UsesError():
		bad = "$error"
	}
	if bad != "" {
		c.addError(pos, "label-template", fmt.Sprintf("label `%s` uses %s, which changes during an alert", name, bad), "use it in an annotation; labels may use only $labels of names in `by`")
	}
	for _, l := range t.Labels() {
		if !slices.Contains(c.By, l) && !c.Keys.HasError("by") {
			c.addError(pos, "label-template", fmt.Sprintf("label `%s` uses $labels.%s, which is not in `by`", name, l), fmt.Sprintf("add %s to `by`, or remove it here", l))
		}
	}
	if len(text) > maxLabelValue && !strings.Contains(text, "{{") {
		c.addError(pos, "too-long", fmt.Sprintf("label `%s` is longer than %d bytes", name, maxLabelValue), "move long texts to annotations")
	}
	return t
}

// template compiles a text that may use all the data of a template.
func (c *compiler) template(text string, pos strictyaml.Pos, name string) *Template {
	c.checkComment(text, pos, name)
	t, err := template.Parse(text)
	if err != nil {
		c.addInvalid(pos, text, "template", name, err)
		return nil
	}
	for _, l := range t.Labels() {
		_, has := c.Labels[l]
		own := l == "alertname" || l == "severity" || l == "resolves" || l == "namespace" && c.form.namespace != ""
		if !has && !own && !slices.Contains(c.By, l) && !c.Keys.HasError("by") && !c.Keys.HasError("labels") {
			c.addError(pos, "annotation-template", fmt.Sprintf("%s uses $labels.%s, which the alert does not have", name, l), fmt.Sprintf("use $vars.%s, or add %s to `by`", l, l))
		}
	}
	if len(text) > template.MaxOutput {
		c.addWarning(pos, "too-long", fmt.Sprintf("%s is longer than %d bytes and will be truncated", name, template.MaxOutput), "make it shorter")
	}
	return t
}

func (c *compiler) checkURL(text string, pos strictyaml.Pos) {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "{{"):
		c.addError(pos, "runbook-url", "`runbook_url` contains a template, but log lines must not choose an address", "write a fixed URL; put values into `steps`")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.addError(pos, "runbook-url", fmt.Sprintf("`runbook_url` is not a URL: %.60q", text), "write it with https:// and a host")
	}
}

func (c *compiler) checkAffects(a *AffectsSyntax) {
	if a.Keys.Pos.IsZero() {
		return
	}
	if a.Keys.IsDecoded("versions") {
		if err := versions.Check(a.Versions); err != nil {
			c.addInvalid(a.Keys.Value("versions"), a.Versions, "versions", "`versions`", err)
		}
	} else if a.Keys.Lacks("versions") {
		c.addWarning(a.Keys.Pos, "versions", "`affects` lacks `versions`, so the running version cannot be compared", "add versions: \">=1.9.0 <1.10.0\"")
	}
	if a.FixedIn != "" {
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(a.FixedIn, "v")); err != nil {
			c.addWarning(a.Keys.Value("fixed_in"), "versions", fmt.Sprintf("`fixed_in` is not a version: %.60q", a.FixedIn), "write all three numbers, such as \"1.10.0\"")
		}
	}
	c.rule.Remediation.Affects = append(c.rule.Remediation.Affects, a.Affects)
}
