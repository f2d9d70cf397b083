package rules

import (
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/namespaces"
	"crowsnest/rules/rulefiles"
	"crowsnest/rules/selector"
	"crowsnest/rules/template"
	"crowsnest/rules/versions"
)

// These aliases give users of rules the types of the packages below it.
type (
	// Problem is one error or warning about a file, with its position and the fix.
	Problem = strictyaml.Problem
	// Problems are all problems that were found while loading rules.
	Problems = strictyaml.Problems
	// File is the content of one file of rules.
	File = rulefiles.File
	// Selector selects log streams by their labels.
	Selector = selector.Selector
	// Template is the text of a label, an annotation or a step.
	Template = template.Template
	// TemplateData is the data of a template.
	TemplateData = template.Data
	// Namespaces is the list of namespaces that rules with `origin: infrastructure` trust.
	Namespaces = namespaces.Set
	// Affects states which versions of a component have the failure that a rule detects.
	Affects = versions.AffectedVersions
	// Verified states in which versions of a component a rule's texts were found.
	Verified = versions.Verified
)

// MaxFileBytes is the maximum size of one file of rules in bytes.
const MaxFileBytes = rulefiles.MaxBytes
