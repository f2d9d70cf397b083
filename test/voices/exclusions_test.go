package voices

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// TestExclusionsHideNothing plants each text that a rule excludes into the lines of the rule.
// A rule that reads many programs excludes a text for one of them, or because another rule
// tells of it: wherever the text is planted, the rule or another one matches the line.
func TestExclusionsHideNothing(t *testing.T) {
	set, prog := shipped(t)
	lines := map[*rules.Rule][]said{}
	for _, s := range sayings(set, prog) {
		if s.part >= 0 {
			lines[s.rule] = append(lines[s.rule], s)
		}
	}
	known := streams{}
	for _, r := range set.Rules {
		if !readsMany(r) {
			continue
		}
		for _, text := range exclusions(r) {
			if _, ok := harmless[text]; ok {
				continue
			}
			for _, s := range lines[r] {
				planted := plant(s.text, cmp.Or(whole[text], text))
				if len(planted) > 0 && !slices.ContainsFunc(planted, func(line string) bool {
					return len(known.hits(prog, s.labels, []string{line})) > 0
				}) {
					t.Errorf("%s excludes %q for every program; no rule matches\n  %s", r.Alert, text, planted[0])
				}
			}
		}
	}
}

// whole are texts with what the rule that has them demands behind or before them.
var whole = map[string]string{
	"failed to list the server could not find the requested resource":         "failed to list *v1.Widget: the server could not find the requested resource",
	"vx:the server could not find ":                                           "unable to retrieve the complete list of server APIs: example.org/v1: the server could not find the requested resource",
	"vx:no matches for ":                                                      "unable to retrieve the complete list of server APIs: example.org/v1: no matches for example.org/v1, Resource=",
	"x509: certificate has expired":                                           "https://10.0.0.1:443/api/v1/pods: x509: certificate has expired or is not yet valid",
	"x509: certificate signed by unknown":                                     "https://10.0.0.1:443/api/v1/pods: x509: certificate signed by unknown authority",
	"x509: certificate is valid for":                                          "https://10.0.0.1:443/api/v1/pods: x509: certificate is valid for a, not b",
	"x509: certificate is not valid for":                                      "https://10.0.0.1:443/api/v1/pods: x509: certificate is not valid for any names",
	"x509: cannot validate":                                                   "https://10.0.0.1:443/api/v1/pods: x509: cannot validate certificate for 10.0.0.1",
	"failed calling webhook ":                                                 `failed calling webhook "v.example.org": failed to call webhook: EOF`,
	"conversion webhook for ":                                                 "conversion webhook for example.org/v1, Kind=Widget failed: EOF",
	"invalid: metadata.finalizers: Forbidden: no new finalizers can be added": `Widget.example.org "w" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted`,
	" is forbidden: User ":                                                    `widgets is forbidden: User "u" cannot list resource "widgets"`,
	"no matches for kind ":                                                    `no matches for kind "Widget" in version "example.org/v1"`,
	"unknown namespace for the cache":                                         "unable to get: a/b because of unknown namespace for the cache",
	"cannot find any versions matching contract":                              `cannot find any versions matching contract "v1beta1" for CRD widgets.example.org`,
	" is invalid: status.":                                                    `Widget.example.org "w" is invalid: status.phase: Invalid value: "x"`,
	" is invalid: [status.":                                                   `Widget.example.org "w" is invalid: [status.phase: Invalid value: "x", status.size: Required value]`,
	"forbidden":                                                               `error retrieving resource lock a/b: leases.coordination.k8s.io "b" is forbidden: User "u" cannot get resource "leases"`,
	"Unauthorized":                                                            "error retrieving resource lock a/b: Unauthorized",
}

// harmless are texts of lines that no rule has to match, and why.
var harmless = map[string]string{
	`CustomResourceDefinition.apiextensions.k8s.io "x" is invalid: status.storedVersions`: "a check of the API server: a CRD drops a version in which objects may still be stored",
	"the object has been modified":                                "the optimistic lock; the next attempt passes",
	`found new finalizers []string{"foregroundDeletion"}`:         "the API server's own finalizers: the object is deleted",
	`found new finalizers []string{"orphan"}`:                     "the API server's own finalizers: the object is deleted",
	"failing or missing response from ":                           "an aggregated API, whose APIService says so",
	"killing connection/stream because serving request timed out": "how the API server ends a request",
	"current time x is before ":                                   "the clock of the client is behind; the certificate has not expired",
	"http: abort Handler":                                         "how net/http ends a request",
	"leader election lost":                                        "how old controllers end",
	"too old resource version":                                    "a watch that begins anew",
	"is forbidden: exceeded quota: ":                              "a limit that somebody set; the object's own events tell it",
	"failed to retrieve kubeconfig secret":                        "a Cluster that has none yet; later ControllerKeepsFailingOnObject tells of the object",
	"failed to increase node group size: Operation cannot":        "words of the autoscaler: ClusterAutoscalerGroupBackedOffAfterConflict",
	"Scale-up failed for group x: Operation cannot":               "words of the autoscaler: ClusterAutoscalerGroupBackedOffAfterConflict",
	"is not ready for scaleup - backoff ":                         "words of the autoscaler: ClusterAutoscalerGroupBackedOffAfterConflict",
	"failing open":                                                "a webhook whose failure lets the request pass",
	"error received after stop sequence was engaged":              "the end of a process that is stopped",
	"connection to the workload cluster is down":                  "the failed connection has its own line, which names the Cluster: ClusterAPIWorkloadClusterUnreachable",
	"FALLING BACK TO LIST":                                        "the client goes on with another request",
	" is before ":                                                 "a clock that is behind, or a certificate that was just made",
	"context canceled":                                            "a request that its client gave up",
	"dial tcp 127.":                                               "a program's own listener",
	"dial tcp [::1]":                                              "a program's own listener",
	"vx:Get \"":                                                   "a group whose API server cannot be reached, which the rules of API services tell",
	"vx:http: ":                                                   "as above",
	"vx:client rate limiter ":                                     "as above",
	"vx:context deadline exceeded":                                "as above",
	"/kube-controller-manager":                                    "a name of the control plane's lease: ControlPlaneLeaseNotRegained",
	"/kube-scheduler":                                             "a name of the control plane's lease: ControlPlaneLeaseNotRegained",
	"error getting ClusterInformation":                            "words of Calico: CalicoCannotReachDatastore",
	"hetznerbaremetalhost":                                        "a kind of another project: ClusterAPIInfrastructureReconcileFails",
	"HetznerBareMetalHost":                                        "a kind of another project: ClusterAPIInfrastructureReconcileFails",
}

// readsMany reports whether a rule reads the logs of programs of different projects.
func readsMany(r *rules.Rule) bool {
	for _, container := range []string{"manager"} {
		if !r.From.Matches(matcher.Labels{"namespace": "x-system", "pod": "x-controller-manager-0", "container": container}, false) {
			return false
		}
	}
	return true
}

// exclusions returns texts that each satisfy an exclusion of the rule that demands nothing else.
func exclusions(r *rules.Rule) (out []string) {
	var walk func(m *rules.Matcher)
	walk = func(m *rules.Matcher) {
		if m.Not != nil {
			out = append(out, bare(m.Not)...)
		}
		for i := range m.Any {
			walk(&m.Any[i])
		}
	}
	for i := range r.Steps {
		walk(&r.Steps[i].Matcher)
	}
	return out
}

// bare returns texts that each satisfy a matcher; none if it demands more than one text.
func bare(m *rules.Matcher) (out []string) {
	switch {
	case len(m.Fields) > 0 || m.Not != nil:
	case len(m.Any) > 0 && len(m.Contains) == 0 && m.Regex == nil:
		for i := range m.Any {
			out = append(out, bare(&m.Any[i])...)
		}
	case len(m.Any) > 0:
	case len(m.Contains) == 1 && m.Regex == nil:
		out = m.Contains
	case len(m.Contains) == 0 && m.Regex != nil:
		re, err := syntax.Parse(m.Regex.String(), syntax.Perl)
		if err != nil {
			panic(err)
		}
		for _, text := range texts(re) {
			if len(text) >= 4 {
				out = append(out, text)
			}
		}
	}
	return out
}

// texts returns a text for each alternative of an expression, at most a thousand.
func texts(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		for _, r := range "x0-/ " + string(re.Rune[0]) {
			for i := 0; i < len(re.Rune); i += 2 {
				if re.Rune[i] <= r && r <= re.Rune[i+1] {
					return []string{string(r)}
				}
			}
		}
	case syntax.OpCapture, syntax.OpPlus, syntax.OpRepeat:
		return texts(re.Sub[0])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{"x"}
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			var next []string
			for _, a := range out {
				for _, b := range texts(sub) {
					if len(next) < 1000 {
						next = append(next, a+b)
					}
				}
			}
			out = next
		}
		return out
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			out = append(out, texts(sub)...)
		}
		return out
	}
	return []string{""}
}

var (
	closing    = regexp.MustCompile(`^(?:[^"\\]|\\.)*"`)
	errorField = regexp.MustCompile(`("?\b(?:err|error)"?[=:] ?")`)
)

// plant returns the line with the text at the start of its error and at its end; nothing if the
// line has no error.
func plant(line, text string) []string {
	at := errorField.FindStringIndex(line)
	if at == nil {
		return nil
	}
	rest := line[at[1]:]
	end := closing.FindStringIndex(rest)
	if end == nil {
		return nil
	}
	quoted := inner(inJSON(text))
	return []string{line[:at[1]] + quoted + " " + rest, line[:at[1]] + rest[:end[1]-1] + " " + quoted + rest[end[1]-1:]}
}

func TestTextsOfExclusions(t *testing.T) {
	re, err := syntax.Parse(`a(?:bcd|[ef]g)+ \d?`, syntax.Perl)
	require.NoError(t, err)
	require.Equal(t, []string{"abcd ", "aeg ", "aeg "}[:2], texts(re))
	require.Equal(t, []string{`E "x" err="say \"no\" y" z="err"`, `E "x" err="y say \"no\"" z="err"`}, plant(`E "x" err="y" z="err"`, `say "no"`))
}
