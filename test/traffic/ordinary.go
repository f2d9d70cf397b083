package traffic

// ordinary fills the entry with a line of normal operation.
func (e *entry) ordinary(d dice) {
	switch d.IntN(12) {
	case 0:
		e.reset('I', "machine_controller", "Waiting for the infrastructure to report a provider ID")
		e.reconciling(d)
		e.fields = append(d.object(e.begin("infraMachine")), 0)
	case 1:
		e.reset('I', "reconciler", "Reconcile succeeded, next run is due in ")
		e.msg = d.duration(e.msg)
		e.reconciling(d)
		e.fields = append(d.letters(e.begin("revision"), 40, hexDigits), 0)
	case 2:
		e.reset('I', "scale", "Scaling ")
		e.msg = d.number(append(d.object(e.msg), " to "...), 40)
		e.msg = append(e.msg, " replicas, pods of the old revision are kept until the new ones are ready"...)
		e.reconciling(d)
	case 3:
		e.reset('I', "static_autoscaler", "Calculated utilisation of node ")
		e.msg = append(d.pod(e.msg), ": cpu "...)
		e.msg = append(d.number(e.msg, 100), "%, memory "...)
		e.msg = append(d.number(e.msg, 100), "%, it has pods that cannot be moved and is not a candidate"...)
		e.add("reason", "NotUnderutilized")
		e.fields = append(d.object(e.begin("nodeGroup")), 0)
		e.fields = append(d.uuid(e.begin("loopID")), 0)
	case 4:
		e.reset('I', "request", "Waited before sending request because of client-side throttling")
		e.fields = append(d.duration(e.begin("delay")), 0)
		e.add("verb", "GET")
		e.fields = append(d.pod(append(e.begin("URL"), "https://10.43.0.1:443/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet-default/machines/"...)), 0)
		e.fields = append(d.uuid(e.begin("requestID")), 0)
	case 5:
		e.reset('I', "garbage_collector", "Processing item")
		e.fields = append(d.uuid(append(d.pod(append(e.begin("item"), "[v1/Pod, namespace: default, name: "...)), ", uid: "...)), ']', 0)
		e.fields = append(d.uuid(e.begin("virtual")), 0)
		e.add("logger", "garbage-collector-controller")
	case 6:
		e.reset('W', "reflector", "watch ended with: an error on the server has prevented the request from succeeding, it is opened again")
		e.add("type", "*v1.EndpointSlice")
		e.add("source", "k8s.io/client-go/informers/factory.go:160")
		e.fields = append(d.number(e.begin("resourceVersion"), 1e8), 0)
	default:
		e.everyday(d)
	}
}

func (e *entry) everyday(d dice) {
	switch d.IntN(5) {
	case 0:
		e.reset('I', "schedule_one", "Successfully bound pod to node")
		e.fields = append(d.pod(append(e.begin("pod"), "team-blue/"...)), 0)
		e.fields = append(d.pod(e.begin("node")), 0)
		e.fields = append(d.number(e.begin("evaluatedNodes"), 200), 0)
		e.fields = append(d.number(e.begin("feasibleNodes"), 90), 0)
		e.fields = append(d.uuid(e.begin("podUID")), 0)
	case 1:
		e.reset('I', "syncer", "Synced object between host and tenant cluster")
		e.fields = append(d.object(e.begin("host")), 0)
		e.fields = append(d.object(e.begin("virtual")), 0)
		e.fields = append(d.letters(e.begin("hash"), 64, hexDigits), 0)
		e.reconciling(d)
	case 2:
		e.reset('I', "health_check", "Target is healthy, no remediation is needed")
		e.fields = append(d.pod(e.begin("target")), 0)
		e.reconciling(d)
	case 3:
		e.reset('I', "trigger_controller", "Certificate is up to date, renewal is scheduled")
		e.fields = append(d.pod(e.begin("secretName")), 0)
		e.add("renewalTime", "2027-02-18T10:00:00Z")
		e.reconciling(d)
	default:
		e.reset('I', "event", "Event occurred")
		e.fields = append(d.object(e.begin("object")), 0)
		e.add("kind", d.one(kinds))
		e.add("type", "Normal")
		e.add("reason", "SuccessfulCreate")
		e.fields = append(d.pod(append(e.begin("message"), "Created pod: "...)), 0)
		e.fields = append(d.uuid(e.begin("uid")), 0)
	}
}
