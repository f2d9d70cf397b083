package matcher

import (
	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
)

// cond is a compiled rules.Matcher. It is immutable.
type cond struct {
	id       int // index of its state in scratch.states, unique within a part
	voices   lines.Voice
	states   bool // whether a match of its fields proves that the program itself reports something; see statesFields
	unsure   bool // whether another text of the line must be in the program's own voice; see isUnsure
	contains []literals.Needle
	regex    *literals.Expression
	need     *literals.Cond    // literal texts that regex requires
	texts    []literals.Needle // literal alternatives of regex if it consists only of these, otherwise nil
	groups   []group
	fields   []fieldCond
	any      []*cond
	not      *cond
}

type fieldCond struct {
	id     int // index in scratch.states
	name   string
	value  string               // required value; used if regex is nil
	regex  *literals.Expression // expression for the whole value
	groups []group
}

// group is a named group of an expression. index is the index of the group in the expression, and value is the index in
// the values of a hit.
type group struct{ index, value int }

// condState is the result of evaluating one condition on one line.
type condState struct {
	loc    []int // positions of the groups, as in regexp; also for an expression of a field
	branch int   // index of the branch of `any` that holds
}

type condCompiler struct {
	names    []string // names of the captured values; nil where captures are not used
	conds    int
	fields   []string // names of the fields that the conditions use
	branches []branch
}

// branch is one alternative of `any`.
type branch struct {
	id        int // index of the state of its condition
	condition *rules.Matcher
}

// compile compiles a matcher. in is the `in` of the surrounding matcher. beside means that a surrounding matcher has
// texts.
func (cc *condCompiler) compile(m *rules.Matcher, in rules.In, beside bool) *cond {
	in = m.In.Within(in)
	c := &cond{id: cc.conds, voices: placeVoices(in), states: statesFields(m, beside)}
	cc.conds++
	for _, text := range m.Contains {
		c.contains = append(c.contains, literals.NewNeedle(literals.Text{Text: text}))
	}
	if m.Regex != nil {
		c.regex, c.need, c.groups = m.Regex, m.Regex.Required(), cc.namedGroups(m.Regex)
		c.texts = soughtTexts(m.Regex)
	}
	for _, f := range m.Fields {
		cc.fields = append(cc.fields, f.Name)
		c.fields = append(c.fields, fieldCond{id: cc.conds, name: f.Name, value: f.Value, regex: f.Regex, groups: cc.namedGroups(f.Regex)})
		cc.conds++
	}
	for i := range m.Any {
		cc.branches = append(cc.branches, branch{cc.conds, &m.Any[i]})
		b := cc.compile(&m.Any[i], in, beside || hasTexts(m))
		b.unsure = isUnsure(b.voices, c.voices, beside || hasTexts(m))
		c.any = append(c.any, b)
	}
	if m.Not != nil {
		inner := condCompiler{conds: cc.conds, fields: cc.fields, branches: cc.branches}
		c.not = inner.compile(m.Not, rules.InAnywhere, false)
		cc.conds, cc.fields, cc.branches = inner.conds, inner.fields, inner.branches
	}
	return c
}

// sufficientTexts returns texts of which one suffices. A line that contains any of them satisfies the condition. It
// returns nil if the condition requires more than a text, or if it captures something.
func (c *cond) sufficientTexts() []literals.Text {
	if len(c.fields) > 0 || c.not != nil || c.voices&lines.Message == 0 {
		return nil
	}
	switch {
	case len(c.any) > 0 && len(c.contains) == 0 && c.regex == nil:
		return c.anyOfAll()
	case len(c.any) > 0:
		return nil
	case len(c.contains) == 1 && c.regex == nil:
		return []literals.Text{{Text: c.contains[0].String()}}
	case len(c.contains) == 0 && c.regex != nil && len(c.groups) == 0:
		return c.need.AnyOf()
	}
	return nil
}

// anyOfAll returns the sufficient texts of all branches. It returns nil if a branch has no sufficient texts, or has
// another `in`.
func (c *cond) anyOfAll() (all []literals.Text) {
	for _, b := range c.any {
		texts := b.sufficientTexts()
		if texts == nil || b.voices != c.voices {
			return nil
		}
		all = append(all, texts...)
	}
	return all
}

// namedGroups returns the named groups of re whose values are captured, in order.
func (cc *condCompiler) namedGroups(re *literals.Expression) []group {
	if re == nil {
		return nil
	}
	var out []group
	for i, name := range re.SubexpNames() {
		for k, captured := range cc.names {
			if name != "" && name == captured {
				out = append(out, group{i, k})
			}
		}
	}
	return out
}

// holds reports whether the line satisfies the condition. It stores the positions of captures in sc for setCaptures.
func (c *cond) holds(sc *scratch, line []byte) bool { return c.holdsBeside(sc, line, false) }

// holdsBeside is holds for a condition inside another one. said means that a text of the surrounding condition is in
// the program's own voice.
func (c *cond) holdsBeside(sc *scratch, line []byte, said bool) bool {
	sc.places = sc.places[:0]
	for i := range c.contains {
		k := c.contains[i].Index(line)
		if k < 0 {
			return false
		}
		sc.places = append(sc.places, k)
	}
	whole := sc.allSaid(c.voices)
	textsEnd, decided := 0, false
	if whole || c.texts == nil { // if whole is false, matches itself searches for the texts
		textsEnd, decided = c.need.Match(line)
	}
	if textsEnd < 0 {
		return false
	}
	said = said || whole || c.states
	for i := range c.contains {
		if whole {
			break
		}
		found, here := findText(&c.contains[i], line, sc.places[i], &sc.quotes, c.voices)
		if !found {
			return false
		}
		said = said || here
	}
	if c.regex != nil {
		decided = decided && (whole || sc.quotes.IsWithin(0, textsEnd, c.voices))
		found, here := c.matches(sc, line, whole, decided, said || len(c.any) > 0)
		if !found {
			return false
		}
		said = said || here
	}
	for i := range c.fields {
		if !c.fields[i].holds(sc, c.voices) {
			return false
		}
	}
	if len(c.any) == 0 {
		return said && (c.not == nil || !c.not.holds(sc, line))
	}
	branch := 0
	for branch < len(c.any) && !c.any[branch].holdsAsBranch(sc, line, said) {
		branch++
	}
	if branch == len(c.any) {
		return false
	}
	sc.states[c.id].branch = branch
	return c.not == nil || !c.not.holds(sc, line)
}

func (c *cond) holdsAsBranch(sc *scratch, line []byte, said bool) bool {
	return sc.mayHold(c.id) && (said || !c.unsure) && c.holdsBeside(sc, line, said)
}

// matches reports whether the expression matches, and whether one of its texts is in the program's own voice. whole
// means that every match counts. decided means that the required texts already prove that a match counts. beside is
// passed to findExpression as its argument said.
func (c *cond) matches(sc *scratch, line []byte, whole, decided, beside bool) (found, said bool) {
	if !whole && c.texts != nil {
		return findAny(c.texts, line, &sc.quotes, c.voices, beside)
	}
	var loc []int
	switch {
	case len(c.groups) > 0:
		loc = c.regex.FindSubmatchIndex(line)
	case decided:
		return true, true
	case !whole:
		loc = c.regex.Regexp().FindIndex(line)
	default:
		return c.regex.Match(line), true
	}
	sc.states[c.id].loc = loc
	if loc == nil || whole || sc.quotes.IsWithin(loc[0], loc[1], c.voices) {
		return loc != nil, true
	}
	m := findExpression(c.regex, line, &sc.quotes, c.voices, beside)
	sc.states[c.id].loc = m.loc
	return m.loc != nil, m.said
}

// lookup returns the value of the field. It ignores a field in quoted text, unless voices are everyVoice.
func (f *fieldCond) lookup(sc *scratch, voices lines.Voice) ([]byte, bool) {
	if voices == everyVoice {
		return sc.fields.Lookup(f.name)
	}
	return sc.fields.LookupSaid(f.name, &sc.quotes)
}

func (f *fieldCond) holds(sc *scratch, voices lines.Voice) bool {
	v, ok := f.lookup(sc, voices)
	if !ok {
		return false
	}
	switch {
	case f.regex == nil:
		return string(v) == f.value
	case len(f.groups) == 0:
		return f.regex.Match(v)
	}
	sc.states[f.id].loc = f.regex.FindSubmatchIndex(v)
	return sc.states[f.id].loc != nil
}

// setCaptures sets the captured values of a line that satisfies the condition. For each name, the first non-empty value
// is used, in the order regex, fields, branch of `any`.
func (c *cond) setCaptures(sc *scratch, line []byte) {
	if len(c.groups) > 0 {
		sc.setGroups(c.groups, line, sc.states[c.id].loc)
	}
	for i := range c.fields {
		if f := &c.fields[i]; len(f.groups) > 0 {
			v, _ := f.lookup(sc, c.voices)
			sc.setGroups(f.groups, v, sc.states[f.id].loc)
		}
	}
	if len(c.any) > 0 {
		c.any[sc.states[c.id].branch].setCaptures(sc, line)
	}
}

func (sc *scratch) setGroups(groups []group, in []byte, loc []int) {
	for _, g := range groups {
		if 2*g.index+1 >= len(loc) || len(sc.values[g.value]) > 0 {
			continue
		}
		if from, to := loc[2*g.index], loc[2*g.index+1]; from >= 0 {
			sc.values[g.value] = in[from:to]
		}
	}
}
