package rules

import (
	_ "embed" // embeds the compiled packs
	"io/fs"
	"runtime"
	"sync"

	"crowsnest/internal/codec"
	"crowsnest/internal/literals"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/selector"
	"crowsnest/rules/template"
)

// compiledPacks holds the rules of the shipped packs without their tests, as Parse would return them. Reading it takes
// a few milliseconds. Parsing the packs would take more than a hundred. TestCompiledPacks writes the file and compares
// it with the packs.
//
//go:embed packs.bin
var compiledPacks string

// ShippedWithoutTests returns the files of the shipped packs, for callers that neither run nor show tests. The names of
// the files begin with prefix. The files have no Data, because Parse uses the compiled packs of the program. Parse
// reads the YAML of a pack only if an override changes one of its rules, or to show the text in a problem.
func ShippedWithoutTests(prefix string) []File {
	var files []File
	for _, p := range compiledList() {
		files = append(files, File{Name: prefix + p.name, Compiled: p.name})
	}
	return files
}

// packedDocument is a compiled pack with the name of its file. The packs are stored separately, so that a change of one pack
// changes few bytes.
type packedDocument struct{ name, document string }

func serializePacks(c *codec.Codec, all *[]packedDocument) {
	codec.List(c, all, func(c *codec.Codec, p *packedDocument) {
		codec.Text(c, &p.name)
		codec.Text(c, &p.document)
	})
}

func compiledList() (all []packedDocument) {
	serializePacks(codec.NewReader(compiledPacks), &all)
	return all
}

func parseCompiled(f File) *Document {
	read := func() []byte {
		data, _ := fs.ReadFile(Shipped(), f.Compiled) // the file is part of the program, so reading cannot fail
		return data
	}
	d := &Document{file: f.Name}
	d.reparse = sync.OnceValue(func() *Document {
		doc, _ := Parse(File{Name: f.Name, Data: read(), Released: true, WithoutTests: true})
		return doc
	})
	for _, p := range compiledList() {
		if p.name == f.Compiled {
			codeDocument(codec.NewReader(p.document), d, strictyaml.NewText(f.Name, read))
		}
	}
	return d
}

// parsed returns the document as parsed from its YAML. This is d itself unless d comes from a compiled pack.
func (d *Document) parsed() *Document {
	if d.reparse == nil {
		return d
	}
	return d.reparse()
}

// documentCodec reads and writes the rules of a document in a compact form.
type documentCodec struct {
	*codec.Codec
	doc       *Document
	source    *strictyaml.Text
	selectors []Selector
	numbers   map[string]int // index in selectors of each selector that was already written, by its text
}

// codeDocument writes a document to in, or reads it from in, depending on the kind of Codec. Reading needs source, the
// text of the file.
func codeDocument(in *codec.Codec, d *Document, source *strictyaml.Text) {
	c := &documentCodec{Codec: in, doc: d, source: source, numbers: map[string]int{}}
	if in.IsReading() {
		d.pack = &PackFile{}
	}
	codec.Text(in, &d.sha)
	codec.Text(in, &d.pack.Pack.Name)
	codec.Text(in, &d.pack.Pack.Version)
	codec.Text(in, &d.pack.Pack.Requires)
	c.storePos(&d.start)
	codec.List(in, &d.rules, func(_ *codec.Codec, p *packRule) { c.packRule(p) })
}

func (c *documentCodec) packRule(p *packRule) {
	if c.IsReading() {
		p.doc, p.rule = c.doc, &Rule{Pack: c.doc.pack.Pack.Name, File: c.doc.file, maxLine: new(lineBound)}
	}
	c.storeRule(p.rule)
	c.DecodeLater(&p.rule.Places.packed, p.rule.Places.write)
	p.alert = p.rule.Alert
}

// storeRule writes or reads a rule without the positions of its keys.
func (c *documentCodec) storeRule(r *Rule) {
	c.storeTrigger(r)
	c.storeConditions(r)
	c.storeTexts(r)
}

func (c *documentCodec) storePos(p *strictyaml.Pos) {
	line, column := p.Line, p.Column
	c.Int(&line)
	c.Int(&column)
	if c.IsReading() && line > 0 {
		*p = c.source.Pos(line, column)
	}
}

// storeTrigger writes or reads the keys that decide when a rule fires.
func (c *documentCodec) storeTrigger(r *Rule) {
	codec.Text(c.Codec, &r.Alert)
	c.Int(&r.Line)
	c.storeSelector(&r.From)
	c.storePos(&r.FromAt)
	c.Bool(&r.Infrastructure)
	codec.List(c.Codec, &r.Steps, func(_ *codec.Codec, s *Step) {
		c.storeSelector(&s.From)
		codeMatcher(c.Codec, &s.Matcher)
		codec.Texts(c.Codec, &s.Differs)
	})
	c.Bool(&r.Sequence)
	c.Int(&r.Count)
	c.Duration(&r.Within)
	codec.Text(c.Codec, &r.Distinct)
	codec.Texts(c.Codec, &r.By)
	codec.Pointer(c.Codec, &r.Clear, c.clearOrUnless)
	codec.Pointer(c.Codec, &r.Unless, c.clearOrUnless)
}

// storeConditions writes or reads the keys that decide how long a failure lasts and how important it is.
func (c *documentCodec) storeConditions(r *Rule) {
	c.Duration(&r.For)
	c.Duration(&r.Silent)
	c.Duration(&r.KeepFiringFor)
	c.Duration(&r.Expire)
	c.Int(&r.Limit)
	codec.Text(c.Codec, &r.Scope)
	codec.Text(c.Codec, &r.Mode)
	codec.Text(c.Codec, &r.Severity)
	codec.List(c.Codec, &r.Causes, func(_ *codec.Codec, x *Cause) {
		codec.Text(c.Codec, &x.Alert)
		codec.Texts(c.Codec, &x.Same)
		c.Duration(&x.Lag)
		c.storePos(&x.Pos)
	})
	codec.Texts(c.Codec, &r.CapturedNames)
	codec.Text(c.Codec, &r.Hash)
}

// storeTexts writes or reads the texts that people read.
func (c *documentCodec) storeTexts(r *Rule) {
	codec.Text(c.Codec, &r.Source)
	codec.List(c.Codec, &r.Labels, codeNamed)
	codec.List(c.Codec, &r.Annotations, codeNamed)
	m := &r.Remediation
	codec.Pointer(c.Codec, &m.Summary, template.Code)
	codec.Text(c.Codec, &m.RunbookURL)
	codec.List(c.Codec, &m.Steps, func(c *codec.Codec, t **Template) { codec.Pointer(c, t, template.Code) })
	codec.List(c.Codec, &m.Affects, func(c *codec.Codec, a *Affects) {
		codec.Text(c, &a.Component)
		codec.Text(c, &a.Image)
		codec.Text(c, &a.Versions)
		codec.Text(c, &a.FixedIn)
		codec.Text(c, &a.Ref)
	})
	codec.List(c.Codec, &r.Verified, func(c *codec.Codec, v *Verified) {
		codec.Text(c, &v.Component)
		codec.Text(c, &v.Versions)
	})
}

func codeNamed(c *codec.Codec, t *NamedTemplate) {
	codec.Text(c, &t.Name)
	codec.Pointer(c, &t.Template, template.Code)
}

func codeMatcher(c *codec.Codec, m *Matcher) {
	codec.Text(c, &m.In)
	codec.Texts(c, &m.Contains)
	codec.Pointer(c, &m.Regex, literals.Code)
	codec.List(c, &m.Fields, func(c *codec.Codec, f *Field) {
		codec.Text(c, &f.Name)
		codec.Text(c, &f.Value)
		codec.Pointer(c, &f.Regex, literals.Code)
	})
	codec.List(c, &m.Any, codeMatcher)
	codec.Pointer(c, &m.Not, codeMatcher)
}

func (c *documentCodec) clearOrUnless(_ *codec.Codec, a *ClearOrUnless) {
	c.storeSelector(&a.From)
	codeMatcher(c.Codec, &a.Matcher)
	codec.Texts(c.Codec, &a.Same)
	c.Bool(&a.NamespaceAdded)
	c.Duration(&a.Within)
	c.storePos(&a.Pos)
}

// storeSelector writes or reads a selector. Equal selectors are stored once.
func (c *documentCodec) storeSelector(s *Selector) {
	i := len(c.selectors)
	if !c.IsReading() {
		text := s.String()
		if known, ok := c.numbers[text]; ok {
			i = known
		} else {
			c.numbers[text] = i
		}
	}
	c.Int(&i)
	if i == len(c.selectors) {
		selector.Serialize(c.Codec, s)
		c.selectors = append(c.selectors, *s)
	}
	*s = c.selectors[i]
}

// CompactRules copies the data of the rules into adjacent memory. After parsing, this data is scattered among garbage,
// so that several times as much memory stays in use. The rules must not be in use yet, no other value may refer to
// parts of them, and their positions must have been removed. CompactRules takes some milliseconds and runs a garbage
// collection.
func CompactRules(all []*Rule) {
	if len(all) == 0 {
		return
	}
	// The time of a Codec grows faster than the size of its texts, so each rule gets its own.
	stored := make([]string, len(all))
	w := &documentCodec{numbers: map[string]int{}}
	for i, r := range all {
		w.Codec = codec.NewWriter()
		w.storeRule(r)
		stored[i] = w.Result()
	}
	for _, r := range all {
		*r = Rule{Pack: r.Pack, File: r.File, Namespace: r.Namespace, Places: r.Places, Disabled: r.Disabled, Tests: r.Tests, PackRule: r.PackRule, maxLine: r.maxLine}
	}
	runtime.GC() // collects the old data first, so that the new data is not placed in the gaps between old objects
	in := &documentCodec{}
	for i, r := range all {
		in.Codec = codec.NewReader(stored[i])
		in.storeRule(r)
	}
}
