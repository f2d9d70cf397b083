package lines

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// fieldsOf renders all fields of a line.
func fieldsOf(line string) string {
	var f Fields
	f.Reset([]byte(line))
	var out []string
	for name, value := range f.All() {
		out = append(out, fmt.Sprintf("%s=%q", name, value))
	}
	return strings.Join(out, " ")
}

func TestTextFields(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, fieldsOf(line))
	}
	// klog, with whole, short and no header.
	f(`E0310 12:00:00.000000       1 x.go:1] "Failed to \"do\" it" err="can't be empty" Cluster="default/c2" n=3 ok=true`,
		`msg="Failed to \"do\" it" err="can't be empty" Cluster="default/c2" n="3" ok="true"`)
	f(`E0101 leaderelection.go:429] "Failed to renew lease" lock="a/b"`, `msg="Failed to renew lease" lock="a/b"`)
	f(`err="MachineSet \"s0\" is invalid" a=b`, `err="MachineSet \"s0\" is invalid" a="b"`)
	f(`"[graceful-termination] shutdown event" name="x"`, `msg="[graceful-termination] shutdown event" name="x"`)
	f(`Nov 20 10:00:00 node kubelet[12]: E1120 10:00:00.1 12 pod.go:1] "Error syncing" pod="ns/x"`, `msg="Error syncing" pod="ns/x"`)
	f(`I0101 x.go:1] failed to renew lease ns/n: "x"`, ``)
	f(`x.go:a] "not msg" y: "not msg"`, ``)
	f("E0101 x.go:1] \"m\" err=<\n\tfirst\n\t\tsecond\n >  k=\"v\"", `msg="m" err="first\n\tsecond" k="v"`)
	f("\"m\" err=<\n\tcut", `msg="m" err="cut"`)
	f(`"m" err=<`, `msg="m"`)
	f(`a=<nil> b=<x`, `a="<nil>" b="<x"`)
	// klogr.
	f(`E0101 1 c.go:1] controllers/X "msg"="Reconciler error" "error"="a=b c=d" "reconciler group"="g" "n"=1`,
		`msg="Reconciler error" error="a=b c=d" reconciler group="g" n="1"`)
	// logfmt and logrus.
	f(`time="2025-11-20T10:00:00Z" level=info msg="found \"3\" nodes" empty= q=""`, `time="2025-11-20T10:00:00Z" level="info" msg="found \"3\" nodes" empty="" q=""`)
	// Nothing inside of quotes is a field.
	f(`"a=b" c"d=e f"g=h`, `msg="a=b" c"d=e f"g="h"`)
	f(`k="x y=z" w=[]string{"a b=c", "d"} e=f`, `k="x y=z" w="[]string{\"a b=c\"" e="f"`)
	// The last one wins.
	f(`a=1 a="2" "x" b=3`, `a="2" b="3"`)
	// Separators of prose.
	f(`for group g until 2025; errorClass=Other; errorCode=cloudProviderError, x=","`, `errorClass="Other" errorCode="cloudProviderError" x=","`)
	f(`a="x",b="y";c=z`, `a="x" b="y" c="z"`)
	// Unclosed quotes.
	f(`5" disk a=b`, `a="b"`)
	f(`x="a b=c`, `x="a b=c"`)
	f("x=\"a b=c\nd=e", `x="\"a" b="c" d="e"`)
	f(`say "x\" a=b`, `a="b"`)
	// Escapes of %q only.
	f(`a="\t\n\\\a\x07\x41\u00e9\u0041\U0001F600\U99999999\q\'"`, `a="\t\n\\\a\a\\x41é\\u0041😀�\\q\\'"`)
	f(`a==b =c d= e`, `a="=b" d=""`)
	f(``, ``)
	f("\xff\xfe=\xfd", "\xff\xfe=\"\\xfd\"")
	// JSON behind a prefix is text.
	f(`INFO {"component": "vcluster", "err": "x"}`, ``)
	f(`2025-11-20T10:00:00Z	text	{"a": 1}`, ``)
	f(`text	about	ERROR	{"a": 1}`, ``)
	f(`{a=b} c=d`, `{a="b}" c="d"`)
}

func TestJSONFields(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		require.Equal(t, want, fieldsOf(line))
	}
	f(`{"ts":1763632800123.4567,"msg":"a \"b\"","Cluster":{"namespace":"ns","name":"n"},"v":0}`,
		`ts="1763632800123.4567" msg="a \"b\"" Cluster="ns/n" Cluster.namespace="ns" Cluster.name="n" v="0"`)
	// zap's console encoder.
	f(`2025-11-20T10:00:00Z	ERROR	x	msg a=b	{"a": 1, "b": {"name": "n"}, "c": "x\t{\"d\": 1}"}`, `a="1" b="n" b.name="n" c="x\t{\"d\": 1}"`)
	f(`INFO	msg	{"a": 1, "b": "trunc`, `a="1"`)
	f(`1.7e9	error	said	{"b": 2}	{"a": 1}`, `a="1"`)
	f(`{"x":{"name":"n"},"y":{"name":"n","namespace":""},"z":{"name":"n","namespace":null}}`, `x="n" x.name="n" y="n" y.name="n" y.namespace="" z="n" z.name="n"`)
	f(`{"x":{"name":"n","namespace":"ns","uid":1}}`, `x.name="n" x.namespace="ns" x.uid="1"`)
	f(`{"x":{"name":1},"y":{"namespace":"ns"},"z":{"name":"n","namespace":2}}`, `x.name="1" y.namespace="ns" z.name="n" z.namespace="2"`)
	f(`{"a":null,"b":true,"c":[1,{"d":"]"}],"e":-1.50e+3,"f":"x"}`, `b="true" e="-1.50e+3" f="x"`)
	f(`{"a":1,"a":"2","b":"x","b":null,"c":{"d":1},"c":{"e":2}}`, `a="2" c.e="2"`)
	f(`{"a.b":1,"a":{"b":2,"c":{"d":3}}}`, `a.b="1" a.c.d="3"`)
	f(`{"\u0061\n":"\ud83d\ude00\ud800x\/\q"}`, "a\n=\"😀�x/\\\\q\"")
	f(` {"a" : "b" , "c":{ } } rest d=e`, `a="b"`)
	f("{\"a\":\"\xff\",\"b\":\"\t\"}", `a="\xff" b="\t"`)
	// A truncated line keeps its complete fields.
	f(`{"a":1,"b":{"c":"x","d":"y`, `a="1" b.c="x"`)
	f(`{"Cluster":{"namespace":"ns","name":"n"`, `Cluster.namespace="ns" Cluster.name="n"`)
	f(`{"a":12`, ``)
	f(`{"a":[1,2`, ``)
	// Other text in braces is text.
	f(`{"a":b c=d}`, `c="d}"`)
	f(`{"a" k=v`, `k="v"`)
	f(`{} a=b`, ``)
	f(`{`, ``)
	f(`{"a":{"b":{"c":{"d":{"e":{"f":{"g":{"h":{"i":1}}}}}}}},"x":1}`, `x="1"`)
}

// FuzzJSON compares fields of valid objects with encoding/json.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":{"b":"\u00e9\ud83d\ude00\ud83d","c":[1,2,{"x":"]"}]},"d":-1.5e3,"e":null,"f":true}`)
	f.Add(`{"a":{"name":"x","namespace":"y"},"a":1," ":""}`)
	f.Fuzz(func(t *testing.T, line string) {
		var j jsonFields
		ok := j.read([]byte(line))
		var want map[string]json.RawMessage
		if !utf8.ValidString(line) || json.Unmarshal([]byte(line), &want) != nil || want == nil {
			return
		}
		require.True(t, ok)
		requireMembers(t, &j, "", want)
	})
}

func requireMembers(t *testing.T, j *jsonFields, prefix string, want map[string]json.RawMessage) {
	for key, raw := range want {
		if strings.Contains(key, ".") || strings.ContainsRune(key, utf8.RuneError) {
			continue // such names can also be read in other ways
		}
		got, ok := j.lookup(prefix + key)
		switch raw[0] {
		case '"':
			var s string
			require.NoError(t, json.Unmarshal(raw, &s))
			require.True(t, ok)
			require.Equal(t, s, string(got))
		case 'n', '[':
			require.False(t, ok, "%s%s", prefix, key)
		case '{':
			var inner map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &inner))
			requireMembers(t, j, prefix+key+".", inner)
		default:
			require.Equal(t, string(raw), string(got))
		}
	}
}

// TestHostileFields reads lines that are made to be slow.
func TestHostileFields(t *testing.T) {
	const size = 16 << 10
	for _, line := range []string{
		strings.Repeat(`{"a":`, size/5), strings.Repeat(`\"`, size/2), strings.Repeat(`"`, size), strings.Repeat("a=", size/2),
		`{` + strings.Repeat(`"a":1,`, size/6), strings.Repeat(`[`, size), `{"a":` + strings.Repeat(`[`, size), `{"` + strings.Repeat(`\`, size),
		strings.Repeat(`{"name":`, size/8), strings.Repeat("<\n\t", size/3), strings.Repeat(`"\u0061":`, size/9),
	} {
		fieldsOf(line)
		_, _ = TextTime([]byte(line), time.Time{})
		_, _ = new(Docker).Read([]byte(line + `"log"`))
	}
}
