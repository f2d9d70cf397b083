package rules

import "crowsnest/internal/literals"

// minLiteral is the minimum length in bytes of a required text by which the prefilter selects lines.
const minLiteral = 4

// Required returns a condition on literal texts that every line of the matcher satisfies. It returns nil if there is
// none. Texts of fields are marked as escapable, because a line may write their letters as \u0041.
func (m *Matcher) Required() *literals.Cond {
	var all []*literals.Cond
	for _, text := range m.Contains {
		all = append(all, literals.OfText(text))
	}
	if m.Regex != nil {
		all = append(all, m.Regex.Required())
	}
	for _, f := range m.Fields {
		if f.Name != "msg" { // in a klog line, the message has no field name
			all = append(all, literals.OfText(f.Name).Pieces(func(c byte) bool { return isVerbatim(c) && c != '.' }))
		}
		value := literals.OfText(f.Value)
		if f.Regex != nil {
			value = f.Regex.Required()
		}
		all = append(all, value.Pieces(isVerbatim))
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

// isVerbatim reports whether a byte of a field's name or value appears unescaped in a line, whatever the format of the
// line. Quotes, backslashes and control characters are escaped. JSON may escape the slash, and writers differ in which
// non-ASCII characters they escape. The slash also joins the two members of a reference, which JSON writes separately.
// JSON may write any other character as \u00XX too; Required handles that.
func isVerbatim(c byte) bool {
	return ' ' <= c && c <= '~' && c != '"' && c != '\\' && c != '/'
}

// isPrefiltered reports whether the prefilter can select the lines of a matcher by literal texts.
func isPrefiltered(m *Matcher) bool {
	_, n := m.Required().Longest()
	return n >= minLiteral
}
