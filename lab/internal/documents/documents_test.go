package documents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// read returns the kinds and names of the objects of a file.
func read(t *testing.T, text string) ([]string, Leftovers) {
	t.Helper()
	var got []string
	rest, err := Each(strings.NewReader(text), func(o Object) {
		var named struct {
			Metadata struct{ Name string }
		}
		require.NoError(t, json.Unmarshal(o.JSON, &named))
		got = append(got, o.APIVersion+" "+o.Kind+" "+named.Metadata.Name)
	})
	require.NoError(t, err)
	return got, rest
}

func TestEach(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		got, rest := read(t, text)
		require.Equal(t, want, got)
		require.Equal(t, Leftovers{}, rest)
	}
	// kubectl get -o yaml, with a text that looks like the next item.
	f("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    annotations:\n      x: |\n        - apiVersion: v1\n        items:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
		"v1 Pod a", "v1 Node n1")
	// must-gather: an indented list.
	f("---\nkind: PodList\napiVersion: v1\nitems:\n  - metadata:\n      name: a\n  - metadata:\n      name: b\n", "v1 Pod a", "v1 Pod b")
	f("# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n\n---\napiVersion: c.io/v1\nkind: C\nmetadata: {name: c}\n...\n", "v1 Pod a", "c.io/v1 C c")
	f("- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n", "v1 Pod a", "v1 Pod b")
	f("apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n")
	f("apiVersion: v1\nkind: EventList\nitems:\n")
	// kubectl cluster-info dump states the kind once.
	f("{\n \"kind\": \"EventList\",\n \"apiVersion\": \"v1\",\n \"metadata\": {},\n \"items\": [{\"metadata\": {\"name\": \"e\"}}]\n}\n{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[{\"metadata\":{\"name\":\"p\"}}]}\n",
		"v1 Event e", "v1 Pod p")
	f(`{"apiVersion":"v1","items":[{"metadata":{"name":"e"},"involvedObject":{}}],"kind":"List"}`, "v1 Event e")
	f(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`, "v1 Pod p")
	f(`[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}]`, "v1 Pod p")
	f(`{"kind":"PodList","items":null}`)
	f("")
}

// What is not understood is counted.
func TestRest(t *testing.T) {
	f := func(text string, foreign, broken int, why string, want ...string) {
		t.Helper()
		got, rest := read(t, text)
		require.Equal(t, want, got)
		require.Equal(t, foreign, rest.Foreign)
		require.Equal(t, broken, rest.Broken)
		if broken > 0 {
			require.ErrorContains(t, rest.First, why)
		}
	}
	pod := "- apiVersion: v1\n  kind: Pod\n  metadata: {name: %s}\n"
	f("a: 1\n", 1, 0, "")
	f("items:\n"+fmt.Sprintf(pod, "a")+"- {\n"+fmt.Sprintf(pod, "b"), 0, 1, "yaml", "v1 Pod a", "v1 Pod b")
	f("items:\n"+fmt.Sprintf(pod, "a")+"- x: "+strings.Repeat("y", MaxObject)+"\n"+fmt.Sprintf(pod, "b"), 0, 1, "more than 4 MiB", "v1 Pod a", "v1 Pod b")
	f(`{"items":[{"kind":"Pod","metadata":{"name":"a"}},{"x":`, 0, 1, "near byte", " Pod a")
	f(`{"items":3}`, 0, 1, "items is not a list")
	f(`{"x":"`+strings.Repeat("y", 2*MaxObject)+`"}`, 0, 1, "more than 4 MiB")
	f("3", 1, 0, "")
	f(`[1, "x"]`, 2, 0, "")
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("%[1]c: &%[1]c [%[2]s]\n", c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	f(laughs, 0, 1, "excessive aliasing")

	_, err := Each(io.MultiReader(strings.NewReader("kind: Pod\n"), iotest.ErrReader(errors.New("disk"))), func(Object) {})
	require.EqualError(t, err, "disk")
	_, err = Each(io.MultiReader(strings.NewReader(`{"kind":`+strings.Repeat(" ", 600)), iotest.ErrReader(errors.New("disk"))), func(Object) {})
	require.EqualError(t, err, "disk")
}

func FuzzEach(f *testing.F) {
	f.Add("apiVersion: v1\nitems:\n- kind: Pod\n- x\nkind: List\n---\nkind: C\n")
	f.Add(`{"kind":"PodList","items":[{"metadata":{}}, 3]} [1]`)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Each(strings.NewReader(text), func(o Object) {
			require.NotEmpty(t, o.Kind)
			require.True(t, json.Valid(o.JSON))
			require.LessOrEqual(t, len(o.JSON), 8*MaxObject)
		})
		require.NoError(t, err)
	})
}
