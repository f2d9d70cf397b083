//go:build e2e

package probes

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"crowsnest/test/child"
	"crowsnest/test/kubelab"
	"crowsnest/test/kubesim"
	"crowsnest/test/manifests"
	"crowsnest/test/servers"
)

// TestE2EInstallationGuide plays docs/deploy.md as it is written: from the chart to the
// first alert in five commands, and the removal. The API server, Alertmanager, helm,
// kubectl and crowsnest are real. The node is simulated: it runs the pods as processes, and
// its pods' names and addresses become local ones.
func TestE2EInstallationGuide(t *testing.T) {
	values, commands := guide(t)
	require.Len(t, commands, 5)
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	n := newNode(t, am.URL)
	n.values(values, am.URL)
	for i, command := range commands {
		out := n.run(command)
		if i == 1 { // the notes of the chart have the commands that follow
			for _, next := range commands[2:] {
				require.Contains(t, out, next)
			}
		}
	}
	first := func() bool {
		n.step()
		alerts, err := am.TryAlerts(`alertname="CrowsnestInstallationTest"`, `crowsnest_test=""`)
		return err == nil && len(alerts) == 1 && alerts[0].Labels["cluster"] == "my-cluster"
	}
	n.until("the first alert", first)
	tested, err := am.TryAlerts(`alertname="CrowsnestInstallationTest"`, `crowsnest_test="true"`)
	require.NoError(t, err)
	require.Len(t, tested, 1, "helm test sends an alert")
	n.until("the heartbeat", func() bool {
		n.step()
		alerts, err := am.TryAlerts(`alertname="CrowsnestHeartbeat"`)
		return err == nil && len(alerts) == 1 && strings.HasPrefix(alerts[0].Annotations["coverage"], "full: agents (1 of 1 nodes)")
	})
	for _, p := range n.pods {
		p.unrestarted()
	}
	n.run("helm uninstall crowsnest --namespace crowsnest")
	left := n.output("kubectl get all,pvc,clusterroles,clusterrolebindings,priorityclasses,networkpolicies,configmaps,roles -A -l app.kubernetes.io/instance=crowsnest -o name")
	require.Equal(t, []string{"persistentvolumeclaim/crowsnest-aggregator"}, apart(left, "pod/", "replicaset.apps/"), "uninstall keeps the state only")
}

// guide returns the values and the commands of docs/deploy.md.
func guide(t *testing.T) (values string, commands []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/deploy.md")
	require.NoError(t, err)
	_, part, ok := strings.Cut(string(text), "## From nothing to the first alert\n")
	require.True(t, ok)
	_, part, ok = strings.Cut(part, "```yaml\n")
	require.True(t, ok)
	values, part, _ = strings.Cut(part, "```\n")
	_, part, ok = strings.Cut(part, "```\n")
	require.True(t, ok)
	part, _, _ = strings.Cut(part, "```\n")
	return values, strings.Split(strings.TrimSpace(part), "\n")
}

// apart returns the lines that have none of these prefixes.
func apart(text string, prefixes ...string) (out []string) {
lines:
	for line := range strings.Lines(text) {
		for _, prefix := range prefixes {
			if strings.HasPrefix(line, prefix) {
				continue lines
			}
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

// node is a cluster with one node, whose controllers, kubelet and network are
// simulated.
type node struct {
	*cluster
	lab     *kubelab.Lab
	kubelet *kubelab.Kubelet
	work    string // working directory of commands
	env     []string
	started map[string]bool // pods that were started, by UID
}

const nodeName = "node-1"

func newNode(t *testing.T, alertmanager string) *node {
	t.Helper()
	c := prepare(t)
	c.asShipped = true
	c.peers["alertmanager"] = &peer{t: t, addr: strings.TrimPrefix(alertmanager, "http://")}
	c.peers["service"].come()
	n := &node{cluster: c, lab: kubelab.Start(t), kubelet: kubelab.NewKubelet(t), work: t.TempDir(), started: map[string]bool{}}
	n.lab.Node(nodeName, n.kubelet.Port())
	deploy, err := filepath.Abs(manifests.Deploy)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(deploy, filepath.Join(n.work, "deploy")))
	bin := t.TempDir()
	for _, program := range []string{"helm", "kubectl"} {
		require.NoError(t, os.Symlink(servers.Program(t, program), filepath.Join(bin, program)))
	}
	n.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+n.lab.Kubeconfig("", kubelab.Admin), "HOME="+t.TempDir())
	return n
}

// values writes the values of the guide, with the address of the test's
// Alertmanager.
func (n *node) values(text, alertmanager string) {
	n.t.Helper()
	values := map[string]any{}
	require.NoError(n.t, yaml.Unmarshal([]byte(text), &values))
	values["alertmanager"].(map[string]any)["urls"] = []string{alertmanager}
	out, err := yaml.Marshal(values)
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(filepath.Join(n.work, "my-values.yaml"), out, 0o600))
}

// run runs a command of the guide while the cluster works.
func (n *node) run(command string) string {
	n.t.Helper()
	out := n.output(command)
	n.t.Logf("$ %s\n%s", command, out)
	return out
}

func (n *node) output(command string) string {
	n.t.Helper()
	var out strings.Builder
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.work, n.env, &out, &out
	p, err := child.Start(cmd)
	require.NoError(n.t, err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.Running() {
		n.step()
		<-tick.C
	}
	require.NoError(n.t, p.Wait(), "%s\n%s", command, out.String())
	return out.String()
}

func (n *node) until(what string, ok func() bool) {
	n.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			for name, p := range n.pods {
				n.t.Logf("%s: %s\n%s", name, p.body(n.t.Context()), p.LogEnd())
			}
			require.Fail(n.t, what)
		}
		<-tick.C
	}
}

// step does what controllers and the kubelet would do now.
func (n *node) step() {
	n.accounts()
	daemonSets, deployments := n.list("/apis/apps/v1/daemonsets"), n.list("/apis/apps/v1/deployments")
	if len(n.pods) == 0 && len(daemonSets) == 1 && len(deployments) == 1 {
		n.launch(daemonSets[0], deployments[0])
	}
	if len(n.pods) > 0 && len(daemonSets) == 1 && len(deployments) == 1 {
		n.report(daemonSets[0], deployments[0])
	}
	for _, claim := range n.list("/api/v1/persistentvolumeclaims") {
		n.patch(claim, "/api/v1", "persistentvolumeclaims", kubelab.Object{"phase": "Bound"})
	}
	for _, pod := range n.list("/api/v1/pods") {
		uid := str(pod, "metadata", "uid")
		if n.started[uid] {
			continue
		}
		n.started[uid] = true
		n.complete(pod)
	}
}

// accounts creates the default service account of each namespace.
func (n *node) accounts() {
	for _, namespace := range n.list("/api/v1/namespaces") {
		path := "/api/v1/namespaces/" + str(namespace, "metadata", "name") + "/serviceaccounts"
		if code, _ := n.lab.Try(http.MethodGet, path+"/default", nil); code == http.StatusNotFound {
			n.lab.Try(http.MethodPost, path, kubelab.Object{"metadata": kubelab.Object{"name": "default"}})
		}
	}
}

// launch starts the agent and the aggregator with the rights and the tokens of
// their pods.
func (n *node) launch(daemonSet, deployment kubelab.Object) {
	n.t.Helper()
	account := n.lab.Kubeconfig("", n.lab.Token("crowsnest", "crowsnest-aggregator"))
	n.kubeconfig = account
	agent := n.create(daemonSet)
	n.create(deployment)
	n.write("token", n.lab.PodToken("crowsnest", "crowsnest-agent", str(agent, "metadata", "name"), "crowsnest"))
	var text strings.Builder
	write := func(kind string, o kubelab.Object) {
		o["kind"] = kind // lists omit it
		doc, err := yaml.Marshal(o)
		require.NoError(n.t, err)
		fmt.Fprintf(&text, "---\n%s", doc)
	}
	for _, o := range n.list("/api/v1/namespaces/crowsnest/configmaps") {
		write("ConfigMap", o)
	}
	write("DaemonSet", daemonSet)
	write("Deployment", deployment)
	for name, w := range workloads(n.t, text.String()) {
		n.pods[name] = n.pod(name, w)
	}
	uid := str(agent, "metadata", "uid")
	n.pods["agent"].Prepare = func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "NODE_NAME="+nodeName, "POD_NAME="+str(agent, "metadata", "name"), "POD_NAMESPACE=crowsnest", "POD_UID="+uid)
	}
	n.log(agent, "crowsnest", "started\n")
	for _, p := range n.pods {
		p.run()
	}
}

// create creates the pod of a workload on the node.
func (n *node) create(workload kubelab.Object) kubelab.Object {
	n.t.Helper()
	template := workload["spec"].(kubelab.Object)["template"].(kubelab.Object)
	spec, meta := template["spec"].(kubelab.Object), template["metadata"].(kubelab.Object)
	spec["nodeName"], meta["name"] = nodeName, str(workload, "metadata", "name")+"-0"
	pod := n.lab.Do(http.MethodPost, "/api/v1/namespaces/crowsnest/pods", kubelab.Object{"metadata": meta, "spec": spec})
	n.started[str(pod, "metadata", "uid")] = true
	delete(spec, "nodeName")
	delete(meta, "name")
	return pod
}

// report writes the status of the workloads.
func (n *node) report(daemonSet, deployment kubelab.Object) {
	count := func(name string) int {
		if n.pods[name].isReady() {
			return 1
		}
		return 0
	}
	agents, aggregators := count("agent"), count("aggregator")
	n.patch(daemonSet, "/apis/apps/v1", "daemonsets", kubelab.Object{
		"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "updatedNumberScheduled": 1,
		"numberReady": agents, "numberAvailable": agents, "numberMisscheduled": 0,
	})
	n.patch(deployment, "/apis/apps/v1", "deployments", kubelab.Object{
		"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": aggregators, "availableReplicas": aggregators,
	})
	n.patch(n.replicaSet(deployment), "/apis/apps/v1", "replicasets", kubelab.Object{
		"observedGeneration": 1, "replicas": 1, "readyReplicas": aggregators, "availableReplicas": aggregators,
	})
}

// replicaSet returns the ReplicaSet of a Deployment, by which helm decides whether
// that is ready.
func (n *node) replicaSet(deployment kubelab.Object) kubelab.Object {
	n.t.Helper()
	if sets := n.list("/apis/apps/v1/namespaces/crowsnest/replicasets"); len(sets) > 0 {
		return sets[0]
	}
	spec := deployment["spec"].(kubelab.Object)
	template := spec["template"].(kubelab.Object)
	return n.lab.Do(http.MethodPost, "/apis/apps/v1/namespaces/crowsnest/replicasets", kubelab.Object{
		"metadata": kubelab.Object{
			"name": "crowsnest-aggregator-1", "labels": template["metadata"].(kubelab.Object)["labels"],
			"ownerReferences": []kubelab.Object{{
				"apiVersion": "apps/v1", "kind": "Deployment", "name": "crowsnest-aggregator", "uid": str(deployment, "metadata", "uid"), "controller": true,
			}},
		},
		"spec": kubelab.Object{"replicas": 1, "selector": spec["selector"], "template": template},
	})
}

// complete runs the containers of a pod to their end: those of crowsnest with the
// real binary, others on this machine.
func (n *node) complete(pod kubelab.Object) {
	n.t.Helper()
	phase := "Succeeded"
	var statuses []kubelab.Object
	for _, c := range pod["spec"].(kubelab.Object)["containers"].([]any) {
		container := c.(kubelab.Object)
		var args []string
		for _, arg := range container["args"].([]any) {
			args = append(args, arg.(string))
		}
		if strings.Contains(container["image"].(string), "crowsnest") {
			args = n.inPod(args)
		}
		code := 0
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			code, phase = 1, "Failed"
			n.t.Logf("%v: %v: %s", args, err, out)
		}
		name := container["name"].(string)
		n.log(pod, name, string(out))
		statuses = append(statuses, kubelab.Object{
			"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
			"state": kubelab.Object{"terminated": kubelab.Object{"exitCode": code}},
		})
	}
	n.patch(pod, "/api/v1", "pods", kubelab.Object{"phase": phase, "containerStatuses": statuses})
}

// inPod returns the command of a container of crowsnest, with its names and files.
func (n *node) inPod(args []string) []string {
	place := strings.NewReplacer("http://crowsnest-aggregator:9797", "http://"+n.pods["aggregator"].Addr, "/etc/crowsnest-rules", n.rules)
	out := []string{binary}
	for _, arg := range args {
		out = append(out, place.Replace(arg))
	}
	if args[0] == "alert" {
		out = append(out, "--config.file="+filepath.Join(n.pods["aggregator"].Dir, "crowsnest.yml"))
	}
	return out
}

// log writes the output of a container to its log, on the node and for the API.
func (n *node) log(pod kubelab.Object, container, text string) {
	n.t.Helper()
	namespace, name := str(pod, "metadata", "namespace"), str(pod, "metadata", "name")
	served := n.kubelet.Start(namespace, name, container)
	file := kubesim.New(kubesim.Options{Root: filepath.Join(n.dir, "logs"), Namespace: namespace, Pod: name, Container: container, UID: str(pod, "metadata", "uid")})
	for line := range strings.Lines(text) {
		served.Stdout(time.Now(), strings.TrimSuffix(line, "\n"))
		file.Write("stdout", strings.TrimSuffix(line, "\n"))
	}
	served.Exit()
	file.Close()
	require.NoError(n.t, file.Err)
}

// list returns the objects of a list.
func (n *node) list(path string) (out []kubelab.Object) {
	n.t.Helper()
	items, _ := n.lab.Do(http.MethodGet, path, nil)["items"].([]any)
	for _, item := range items {
		out = append(out, item.(kubelab.Object))
	}
	return out
}

// patch sets the status of an object, which may have been deleted.
func (n *node) patch(o kubelab.Object, api, resource string, status kubelab.Object) {
	n.lab.Try(http.MethodPatch, api+"/namespaces/"+str(o, "metadata", "namespace")+"/"+resource+"/"+str(o, "metadata", "name")+"/status", kubelab.Object{"status": status})
}

// str returns a text within an object.
func str(o kubelab.Object, path ...string) string {
	for _, key := range path[:len(path)-1] {
		o, _ = o[key].(kubelab.Object)
	}
	s, _ := o[path[len(path)-1]].(string)
	return s
}
