package envelope

import (
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// role is what the value of a field describes.
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
	roleTag   // tag F or P of the CRI format
	roleName  // a name of the kind of object that the enclosing object states
	roleFile  // path or tag of the log
	roleAttrs // further fields in one text
)

// roleNames contains, for each role, the names of fields with this role, without filler words.
var roleNames = map[role]string{
	rolePod:        "pod podname kubepod",
	roleNamespace:  "namespace ns podnamespace namespacename podns kubens kubenamespace",
	roleContainer:  "container containername kubecontainername podcontainer ctr",
	roleNode:       "host hostname computer kubehost podhost node nodename",
	roleCluster:    "cluster clustername kubecluster",
	roleUnit:       "unit",
	roleIdentifier: "identifier",
	roleTransport:  "transport",
	roleStream:     "stream iostream logiostream fd outputstream std logsource streamname",
	roleTag:        "logtag p",
	roleFile:       "source src filename file path logfile filepath logfilepath logpath logstream logstreamname",
	roleName:       "name",
}

var (
	// lineNames contains names of the field with the log line. The most certain names come first.
	lineNames = strings.Fields(`log raw textpayload logline line original rawlog rawline rawmessage originalmessage fullmessage logmessage
		logtext logrecord logentry logevent logbody message msg jsonpayload body bodytext messagetext msgtext shortmessage content text entry payload
		event record logs output data`)
	// timeNames contains names of the field with the time. Names that mean the time at which the container wrote the
	// line come first.
	timeNames = strings.Fields(`time timestampns tsns timens timenano timestampnanos timeunixnano timestamp ts realtimetimestamp sourcerealtimetimestamp
		eventtime systemtime logtime logtimestamp timestampms timems date datetime timegenerated createdat created occurred at when t timestampunix epoch
		observedtimeunixnano observedtimestamp receivetimestamp receivedat ingestiontime ingested indextime`)
	// rawNames contains names that no program uses for its own fields.
	rawNames = strings.Fields("log raw textpayload jsonpayload logline line rawlog rawline rawmessage logmessage logtext logrecord logentry logevent original originalmessage")
	// fillers contains words in names of fields that do not change the meaning of the name.
	fillers = strings.Fields("k8s kubernetes kube io resource meta metadata label labels attributes attr fields orchestrator docker cri systemd syslog field tag tags properties dimensions utc")

	attributeNames = strings.Fields("labels tags fields attributes kubernetes k8s metadata label")
	levelNames     = strings.Fields("level lvl severity loglevel levelname severitytext l")
	ownNames       = strings.Fields("logger caller controller reconcileid stacktrace controllerkind controllergroup err error v stack component func errorverbose loggername goroutine")
	objectNames    = strings.Fields("apiversion involvedobject regarding")
	valueNames     = strings.Fields("value val stringvalue")
	keyNames       = strings.Fields("key k field column name")
	aboutNames     = strings.Fields("labels annotations podlabels podannotations namespacelabels namespaceannotations k8slabels kuberneteslabels owner ownerreferences nodelabels")
)

// keyClass is the meaning of a field's name.
type keyClass struct {
	key                []byte // name as it is written in JSON
	role               role
	line               uint8 // rank among the names for the line, of which 1 is best; zero if the name has another meaning
	time               uint8 // rank among the names for the time, of which 1 is best; zero if the name has another meaning
	raw                bool  // whether only an envelope has such a field
	kube               bool  // whether the name refers to Kubernetes
	own                bool  // whether the log libraries of programs write the field
	level              bool  // whether the log libraries of programs and many shippers write the field
	describesContainer bool  // whether the field describes the container, and not the output of the container
	object             bool  // whether Kubernetes objects have the field
	value              bool  // whether the field is the value of an attribute
	name               bool  // whether the field is the name of an attribute
	host               bool  // whether the field is the host name of a machine
}

var (
	camel   = lazyre.New("([a-z])([A-Z])")
	journal = lazyre.New("^_|^SYSLOG_IDENTIFIER$|systemd|syslog")
)

// classify returns the meaning of the name of a field. podName, pod_name, pod.name, PodName and
// "pod name" have the same meaning.
func classify(key string) *keyClass {
	words := strings.FieldsFunc(strings.ToLower(camel.ReplaceAllString(key, "$1 $2")), func(r rune) bool { return r > 127 || !isAlphanumeric(byte(r)) })
	joined := strings.Join(words, "")
	rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(fillers, w) })
	trimmed := strings.Join(rest, "")
	if k := len(rest) - 1; k > 0 && (rest[k] == "name" || rest[k] == "id" && rest[k-1] == "cluster") {
		rest = rest[:k]
	}
	short := strings.Join(rest, "")
	has := func(names []string) bool { return slices.Contains(names, joined) }
	c := &keyClass{
		key: []byte(key), level: has(levelNames), own: has(ownNames), object: has(objectNames), value: has(valueNames), name: has(keyNames), describesContainer: has(aboutNames),
		kube: slices.ContainsFunc(words, func(w string) bool { return w[0] == 'k' && slices.Contains(fillers, w) }),
	}
	for role, names := range roleNames {
		if slices.Contains(strings.Fields(names), short) {
			c.role = role
		}
	}
	switch {
	case short == "" && has(attributeNames):
		c.role = roleAttrs
	case short == "" && joined == "tag":
		c.role = roleFile
	case c.role >= roleUnit && c.role <= roleTransport && !journal.MatchString(key), strings.HasSuffix(joined, "id") && joined != "id" && c.role != roleCluster:
		c.role = roleNone
	}
	c.host = c.role == roleNode && short != "node" && short != "nodename"
	rank := func(names []string) uint8 {
		if i := slices.Index(names, joined); i >= 0 || c.role != roleNone {
			return uint8(i + 1)
		}
		return uint8(slices.Index(names, trimmed) + 1)
	}
	c.line, c.time = rank(lineNames), rank(timeNames)
	if c.line == 0 && c.role == roleNone && strings.HasPrefix(joined, "raw") {
		c.line = 2
	}
	c.raw = c.line == 2 || has(rawNames) || key == "MESSAGE" || key == "@message" || key == "_msg" || key == "_line"
	return c
}
