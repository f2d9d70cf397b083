package rules

import "crowsnest/internal/literals"

// minLiteral is the minimum length, in bytes, of a required literal that selects lines.
const minLiteral = 4

// Required returns the texts that every line contains that satisfies the matcher, nil if
// there are none. Those of fields are escapable: a line may have letters of them as
// \u0041.
func (m *Matcher) Required() *literals.Cond {
	var all []*literals.Cond
	for _, text := range m.Contains {
		all = append(all, literals.OfText(text))
	}
	if m.Regex != nil {
		all = append(all, m.Regex.Required())
	}
	for _, f := range m.Fields {
		if f.Name != "msg" { // the message of klog has no name
			all = append(all, literals.OfText(f.Name).Pieces(func(c byte) bool { return verbatim(c) && c != '.' }))
		}
		value := literals.OfText(f.Value)
		if f.Regex != nil {
			value = f.Regex.Required()
		}
		all = append(all, value.Pieces(verbatim))
	}
	if len(m.Any) > 0 {
		branches := make([]*literals.Cond, len(m.Any))
		for i := range m.Any {
			branches[i] = m.Any[i].Required()
		}
		all = append(all, literals.OneOf(branches...))
	}
	return literals.AllOf(all...)
}

// verbatim reports whether a letter of a field's name or value appears unescaped in the
// line, whatever its format. Quotes, backslashes and control characters are escaped,
// JSON may escape the slash, and writers differ in which non-ASCII characters they
// escape. The slash also joins the two members of a reference, which JSON writes
// separately. JSON may write any letter as \u00XX.
func verbatim(c byte) bool {
	return ' ' <= c && c <= '~' && c != '"' && c != '\\' && c != '/'
}

// gated reports whether the prefilter finds the lines of a matcher by texts of at least
// minLiteral bytes.
func gated(m *Matcher) bool {
	_, n := m.Required().Longest()
	return n >= minLiteral
}
