package rules

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sync/atomic"
	"testing"
	texttemplate "text/template"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/codec"
	"crowsnest/internal/strictyaml"
	"crowsnest/rules/rulefiles"
)

// shippedDocuments parses the shipped packs without their tests, by the names of their files.
func shippedDocuments(t *testing.T, prefix string) []*Document {
	t.Helper()
	files, err := rulefiles.ReadFS(Shipped())
	require.NoError(t, err)
	docs := make([]*Document, len(files))
	for i, f := range files {
		f.Name, f.Released, f.WithoutTests = prefix+f.Name, true, true
		var problems Problems
		docs[i], problems = Parse(f)
		require.Empty(t, problems, f.Name)
	}
	return docs
}

// compilePacks returns the content of packs.bin.
func compilePacks(docs []*Document) string {
	var all []packedDocument
	for _, d := range docs {
		c := codec.NewWriter()
		codeDocument(c, d, nil)
		all = append(all, packedDocument{d.file, c.Result()})
	}
	c := codec.NewWriter()
	serializePacks(c, &all)
	return c.Result()
}

// The compiled packs are those in rules/packs. With UPDATE_SNAPSHOTS=1 the test writes them.
func TestCompiledPacks(t *testing.T) {
	want := compilePacks(shippedDocuments(t, ""))
	if os.Getenv("UPDATE_SNAPSHOTS") != "" {
		require.NoError(t, os.WriteFile("packs.bin", []byte(want), 0o600))
		return
	}
	require.True(t, want == compiledPacks, "a pack or the way rules are compiled has changed: run make compiled")
}

// compiledDocuments returns the documents of the compiled packs.
func compiledDocuments(t *testing.T, prefix string) []*Document {
	t.Helper()
	var docs []*Document
	for _, f := range ShippedWithoutTests(prefix) {
		d, problems := Parse(f)
		require.Empty(t, problems)
		docs = append(docs, d)
	}
	return docs
}

// A compiled pack has the same rules as the parsed one, in every field, and the same
// places of their keys.
func TestCompiledEqualsParsed(t *testing.T) {
	want, got := shippedDocuments(t, "shipped:"), compiledDocuments(t, "shipped:")
	require.Equal(t, len(want), len(got), "number of packs; run make compiled")
	for i, d := range got {
		w := want[i]
		require.Equal(t, w.File(), d.File())
		require.Equal(t, w.SHA256(), d.SHA256())
		require.Equal(t, w.Pack(), d.Pack())
		require.Equal(t, w.start.Problem(0, "", "", ""), d.start.Problem(0, "", "", ""))
		require.Len(t, d.rules, len(w.rules))
		for k := range d.rules {
			sameRule(t, w.rules[k].rule, d.rules[k].rule)
			require.Equal(t, w.rules[k].writtenForm().Alert, d.rules[k].writtenForm().Alert)
			require.Equal(t, w.rules[k].writtenForm().at.String(), d.rules[k].writtenForm().at.String())
		}
	}
}

// sameRule requires that two rules are equal, except for how their positions are kept.
func sameRule(t *testing.T, want, got *Rule) {
	t.Helper()
	require.Equal(t, want.SetBy(), got.SetBy(), want.Alert)
	require.Equal(t, want.MatchHash(), got.MatchHash(), want.Alert)
	require.Equal(t, want.MaxLineTime(), got.MaxLineTime(), want.Alert)
	places := func(r *Rule) (out []Problem) {
		out = append(out, r.FromAt.Problem(0, "", "", ""))
		for _, a := range []*ClearOrUnless{r.Clear, r.Unless} {
			if a != nil {
				out = append(out, a.Pos.Problem(0, "", "", ""))
			}
		}
		for i := range r.Causes {
			out = append(out, r.Causes[i].Pos.Problem(0, "", "", ""))
		}
		return out
	}
	require.Equal(t, places(want), places(got), want.Alert)
	require.Equal(t, "", difference(want.Alert, reflect.ValueOf(*want), reflect.ValueOf(*got)))
}

// difference returns the path of the first difference of two values, "" if they are equal.
// It ignores what sameRule has compared, and what was made when it was first needed.
func difference(path string, a, b reflect.Value) string {
	switch a.Type() {
	case reflect.TypeFor[strictyaml.Pos](), reflect.TypeFor[Places](), reflect.TypeFor[*lineBound](),
		reflect.TypeFor[atomic.Pointer[regexp.Regexp]](), reflect.TypeFor[atomic.Pointer[texttemplate.Template]]():
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			break
		}
		return difference(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if d := difference(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return path
		}
		for i := range a.Len() {
			if d := difference(fmt.Sprint(path, "[", i, "]"), a.Index(i), b.Index(i)); d != "" {
				return d
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return path
	}
	return ""
}

// A change of any field of a rule is a difference, so that a new field cannot be left out.
func TestDifference(t *testing.T) {
	rule := compiledDocuments(t, "")[0].rules[0].rule
	require.Empty(t, difference("", reflect.ValueOf(*rule), reflect.ValueOf(*rule)))
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		changed := *rule
		v := reflect.ValueOf(&changed).Elem().Field(i)
		if !v.CanSet() || field.Type == reflect.TypeFor[strictyaml.Pos]() || field.Type == reflect.TypeFor[Places]() {
			continue
		}
		if v.IsZero() {
			v.Set(filled(field.Type))
		} else {
			v.SetZero()
		}
		require.NotEmpty(t, difference("", reflect.ValueOf(*rule), reflect.ValueOf(changed)), field.Name)
	}
}

// filled returns a value that is not zero.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	}
	return v
}
