// Command podsecurity reads manifests from standard input and prints, for each
// workload, the strictest Pod Security Standard that its pods satisfy, and which
// checks of the stricter ones fail.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// workload is a Deployment or a DaemonSet.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "podsecurity:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	docs := yamlreader.NewYAMLReader(bufio.NewReader(in))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var w workload
		if err := yaml.Unmarshal(doc, &w); err != nil {
			return err
		}
		meta, spec := w.Spec.Template.ObjectMeta, w.Spec.Template.Spec
		switch w.Kind {
		case "Deployment", "DaemonSet":
		case "Pod":
			var pod corev1.Pod
			if err := yaml.Unmarshal(doc, &pod); err != nil {
				return err
			}
			meta, spec = pod.ObjectMeta, pod.Spec
		default:
			continue
		}
		level, failed := strictest(evaluator, &meta, &spec)
		fmt.Fprintf(out, "%s/%s %s %s\n", w.Kind, w.Name, level, strings.Join(failed, ","))
	}
}

// strictest returns the strictest level that a pod satisfies, and the reasons
// against the stricter ones.
func strictest(e policy.Evaluator, meta *metav1.ObjectMeta, spec *corev1.PodSpec) (level api.Level, failed []string) {
	seen := map[string]bool{}
	for _, level := range []api.Level{api.LevelRestricted, api.LevelBaseline} {
		bad := false
		for _, result := range e.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, meta, spec) {
			if result.Allowed {
				continue
			}
			bad = true
			if reason := strings.ReplaceAll(result.ForbiddenReason, " ", "-"); !seen[reason] {
				seen[reason] = true
				failed = append(failed, reason)
			}
		}
		if !bad {
			return level, failed
		}
	}
	return api.LevelPrivileged, failed
}
