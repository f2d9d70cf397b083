package envelope

import (
	"slices"
	"strings"
)

// role is what the name of a field says about its value.
type role uint8

const (
	roleNone role = iota
	rolePod
	roleNamespace
	roleContainer
	roleNode
	roleCluster
	roleUnit
	roleIdentifier
	roleTransport
	roleStream
	roleTag   // F or P of CRI
	roleName  // decided by the object that has it
	roleFile  // the path or the tag of a log
	roleAttrs // further fields, written as a text
	roles
)

// keyClass is what the name of a field says.
type keyClass struct {
	key    []byte // the name, as it is written in JSON
	role   role
	line   uint8 // rank of the key as that of the line, the best first; zero if it never is
	time   uint8 // the same of a time
	raw    bool  // only an envelope has such a field
	kube   bool  // its name says that it is about Kubernetes
	own    bool  // the log libraries of programs write it
	level  bool  // the same, and many shippers do
	about  bool  // describes the container, not what it wrote
	object bool  // Kubernetes objects have it
	value  bool  // the value of an attribute
	name   bool  // the name of an attribute
	host   bool  // the name of a machine, as it calls itself
}

// lineNames are names of the field with the line, the most telling first.
var lineNames = []string{
	"log", "raw", "textpayload", "logline", "line", "original", "rawlog", "rawline", "rawmessage", "originalmessage", "fullmessage", "logmessage",
	"logtext", "logrecord", "logentry", "logevent", "logbody", "message", "msg", "jsonpayload", "body", "bodytext", "messagetext", "msgtext", "shortmessage", "content", "text", "entry", "payload",
	"event", "record", "logs", "output", "data",
}

// rawNames are those that no program writes about itself.
var rawNames = []string{"log", "raw", "textpayload", "jsonpayload", "logline", "line", "rawlog", "rawline", "rawmessage", "logmessage", "logtext", "logrecord", "logentry", "logevent", "original", "originalmessage"}

// timeNames are names of the field with the time, those of the container first.
var timeNames = []string{
	"time", "timestampns", "tsns", "timens", "timenano", "timestampnanos", "timeunixnano", "timestamp", "ts", "realtimetimestamp", "sourcerealtimetimestamp", "eventtime", "systemtime", "logtime", "logtimestamp", "timestampms", "timems",
	"date", "datetime", "timegenerated", "createdat", "created", "occurred", "at", "when", "t", "timestampunix", "epoch", "observedtimeunixnano", "observedtimestamp",
	"receivetimestamp", "receivedat", "ingestiontime", "ingested", "indextime",
}

// roleNames are names of fields about the place, without fillers.
var roleNames = map[string]role{
	"pod": rolePod, "podname": rolePod, "kubepod": rolePod, "namespace": roleNamespace, "ns": roleNamespace, "podnamespace": roleNamespace, "namespacename": roleNamespace, "podns": roleNamespace,
	"kubens": roleNamespace, "kubenamespace": roleNamespace, "container": roleContainer, "containername": roleContainer, "kubecontainername": roleContainer, "podcontainer": roleContainer, "ctr": roleContainer,
	"host": roleNode, "hostname": roleNode, "computer": roleNode, "kubehost": roleNode, "podhost": roleNode, "node": roleNode, "nodename": roleNode,
	"cluster": roleCluster, "clustername": roleCluster, "kubecluster": roleCluster, "unit": roleUnit, "identifier": roleIdentifier, "transport": roleTransport,
	"stream": roleStream, "iostream": roleStream, "logiostream": roleStream, "fd": roleStream, "outputstream": roleStream, "std": roleStream, "logsource": roleStream, "streamname": roleStream,
	"logtag": roleTag, "p": roleTag, "source": roleFile, "src": roleFile, "filename": roleFile, "file": roleFile, "path": roleFile, "logfile": roleFile, "filepath": roleFile,
	"logfilepath": roleFile, "logpath": roleFile, "logstream": roleFile, "logstreamname": roleFile, "name": roleName,
}

// Further names, by what they say.
var (
	attributeNames = []string{"labels", "tags", "fields", "attributes", "kubernetes", "k8s", "metadata", "label"}
	levelNames     = []string{"level", "lvl", "severity", "loglevel", "levelname", "severitytext", "l"}
	ownNames       = []string{"logger", "caller", "controller", "reconcileid", "stacktrace", "controllerkind", "controllergroup", "err", "error", "v", "stack", "component", "func", "errorverbose", "loggername", "goroutine"}
	objectNames    = []string{"apiversion", "involvedobject", "regarding"}
	valueNames     = []string{"value", "val", "stringvalue"}
	nameNames      = []string{"key", "k", "field", "column", "name"}
	aboutNames     = []string{"labels", "annotations", "podlabels", "podannotations", "namespacelabels", "namespaceannotations", "k8slabels", "kuberneteslabels", "owner", "ownerreferences", "nodelabels"}
)

// words that say nothing about which name it is.
var fillers = map[string]bool{
	"k8s": true, "kubernetes": true, "kube": true, "io": true, "resource": true, "meta": true, "metadata": true, "label": true, "labels": true,
	"attributes": true, "attr": true, "fields": true, "orchestrator": true, "docker": true, "cri": true, "systemd": true, "syslog": true, "field": true, "tag": true, "tags": true, "properties": true, "dimensions": true, "utc": true,
}

// classify returns what a name says. A dotted name counts as a path.
func classify(key string) keyClass {
	var c keyClass
	words := wordsOf(key)
	joined := strings.Join(words, "")
	var rest []string
	for _, w := range words {
		if !fillers[w] {
			rest = append(rest, w)
		} else if strings.HasPrefix(w, "k") {
			c.kube = true
		}
	}
	trimmed := strings.Join(rest, "")
	if len(rest) > 1 && (rest[len(rest)-1] == "name" || rest[len(rest)-1] == "id" && rest[len(rest)-2] == "cluster") {
		rest = rest[:len(rest)-1]
	}
	short := strings.Join(rest, "")
	switch c.role = roleNames[short]; {
	case short == "" && slices.Contains(attributeNames, joined):
		c.role = roleAttrs
	case short == "" && joined == "tag":
		c.role = roleFile
	}
	c.host = c.role == roleNode && short != "node" && short != "nodename"
	if c.role == roleUnit || c.role == roleTransport || c.role == roleIdentifier {
		if !strings.HasPrefix(key, "_") && key != "SYSLOG_IDENTIFIER" && !strings.Contains(joined, "systemd") && !strings.Contains(joined, "syslog") {
			c.role = roleNone
		}
	}
	if strings.HasSuffix(joined, "id") && joined != "id" && c.role != roleCluster {
		c.role = roleNone
	}
	if i := slices.Index(lineNames, joined); i >= 0 {
		c.line = uint8(i + 1)
	} else if i := slices.Index(lineNames, trimmed); i >= 0 && c.role == roleNone {
		c.line = uint8(i + 1)
	}
	if i := slices.Index(timeNames, joined); i >= 0 {
		c.time = uint8(i + 1)
	} else if i := slices.Index(timeNames, trimmed); i >= 0 && c.role == roleNone {
		c.time = uint8(i + 1)
	}
	if c.line == 0 && c.role == roleNone && strings.HasPrefix(joined, "raw") {
		c.line = 2
	}
	c.raw = c.line == 2 || slices.Contains(rawNames, joined) || key == "MESSAGE" || key == "@message" || key == "_msg" || key == "_line"
	c.level, c.own, c.object = slices.Contains(levelNames, joined), slices.Contains(ownNames, joined), slices.Contains(objectNames, joined)
	c.value, c.name, c.about = slices.Contains(valueNames, joined), slices.Contains(nameNames, joined), slices.Contains(aboutNames, joined)
	return c
}

// wordsOf splits a name: podName, pod_name, pod.name, PodName and "pod name" have the same
// words. A short word in capitals is one.
func wordsOf(key string) []string {
	var out []string
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out = append(out, strings.ToLower(key[start:end]))
		}
		start = -1
	}
	for i := range len(key) {
		c := key[i]
		upper := 'A' <= c && c <= 'Z'
		switch {
		case !upper && !('a' <= c && c <= 'z') && !('0' <= c && c <= '9'):
			flush(i)
			continue
		case upper && i > 0 && key[i-1] >= 'a' && key[i-1] <= 'z':
			flush(i)
		}
		if start < 0 {
			start = i
		}
	}
	flush(len(key))
	return out
}
