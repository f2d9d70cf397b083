package discover

import "strings"

// lineSeparator separates the lines of a record in the result of EventText.
const lineSeparator = " / "

// EventText returns the lines of a record that state what happened, joined to one line. It omits
// the frames of stack traces. A record of one line is returned unchanged.
func EventText(record string) string {
	record = strings.TrimRight(record, "\n")
	if strings.IndexByte(record, '\n') < 0 {
		return record
	}
	return strings.Join(eventLines(record), lineSeparator)
}

// eventLines returns the lines of a record without the frames of stack traces.
func eventLines(record string) (out []string) {
	source := false // whether the next line is source code below a frame of a Python traceback
	for line := range strings.SplitSeq(record, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case source:
			source = false
		case strings.HasPrefix(line, `File "`):
			source = strings.Contains(line, ", line ")
		case line != "" && !isStackFrame(line):
			out = append(out, line)
		}
	}
	return out
}

// isStackFrame reports whether a line is part of a stack trace. White space around the line must have
// been removed.
func isStackFrame(line string) bool {
	switch {
	case strings.HasPrefix(line, "[signal "):
		return false // such a line states the cause, although it looks like a frame
	case strings.HasPrefix(line, "at "), strings.HasPrefix(line, "... "):
		return true
	case strings.IndexByte(line, ' ') < 0:
		return strings.HasSuffix(line, ")") || strings.ContainsAny(line, "./")
	}
	return continuation(line)
}

// causeOf returns the line of a record that states the cause. In Java it is the last "Caused
// by", and in Python the line below the traceback. The result is "" if there is none.
func causeOf(record string) string {
	_, rest, more := strings.Cut(record, "\n")
	if !more {
		return ""
	}
	cause, last := "", ""
	for _, line := range eventLines(rest) {
		if text, ok := strings.CutPrefix(line, "Caused by: "); ok {
			cause = text
		}
		last = line
	}
	if cause == "" && strings.Contains(record, "Traceback (most recent call last)") {
		cause = last
	}
	return cause
}

// endings are phrases with which a program says that it ends because of the failure.
var endings = []string{
	"exit with error", "exited with error", "exiting with error", "exit with an error", "exiting due to", "problem running manager",
	"panic: ", "observed a panic",
}

// ends reports whether a text in lower case says that the program ends.
func ends(text string) bool {
	return containsAny(text, endings) && !containsAny(text, aborted)
}

// canceled are final parts of errors that say that the client disconnected.
var canceled = []string{
	"context canceled", "context cancelled", "io: read/write on closed pipe", "websocket: close sent", "client disconnected",
	"websocket: close 1000 (normal)", "websocket: close 1001 (going away)", "websocket: close 1005 (no status)",
}

// aborted are panics with which Go's HTTP server ends a response that no client waits for.
var aborted = []string{"http: abort handler", "killing connection/stream because serving request timed out"}

// cut are final parts of errors about a connection that the other side closed. That side is
// the client only while a request is answered or relayed.
var (
	cut     = []string{"broken pipe", "connection reset by peer"}
	answers = []string{
		"proxy", "writing response", "writing the response", "write response", "write the response", "json response", "tls handshake error",
		"serving request", "handling request", "encoding response", "encode response", "sending response",
	}
	ownFault = []string{"deadline exceeded", "timeout", "timed out", "dial tcp", "connect: "}
)

// clientLeft reports whether a complaint only says that a client ended its request or its
// connection, which is not a failure of the program. Both texts are in lower case.
func clientLeft(message, err string) bool {
	whole := message + "\n" + err
	if containsAny(whole, aborted) {
		return true
	}
	end := strings.TrimRight(whole, " \t\n.,;:!\"'`)]}")
	for _, text := range canceled {
		// Code for websockets puts the reason in parentheses, and the last parenthesis has
		// been removed.
		if strings.HasSuffix(end, strings.TrimRight(text, ")")) {
			return !containsAny(whole, ownFault)
		}
	}
	for _, text := range cut {
		if strings.HasSuffix(end, text) {
			return containsAny(whole, answers) && !containsAny(whole, ownFault)
		}
	}
	return false
}

func containsAny(text string, all []string) bool {
	for _, part := range all {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// continuation reports whether a line continues the previous line. Such a line is part of a
// stack trace, or is indented.
func continuation(line string) bool {
	if line == "" || line[0] == '\t' || strings.HasPrefix(line, "    ") {
		return true
	}
	line = trimPrefix(strings.TrimSpace(line))
	switch {
	case strings.HasPrefix(line, "[signal "):
		return true // the line is part of a panic
	case !strings.ContainsAny(line, " \t") && line != "" && line[0] != '{':
		return true // a single word carries no message; most are functions in a stack trace
	case strings.HasPrefix(line, "goroutine ") && strings.Contains(line, "["), strings.HasPrefix(line, "created by "):
		return true
	case strings.Contains(line, ".go:") && strings.Contains(line, " +0x"):
		return true
	}
	// The line may be a function call with arguments, such as pkg.(*T).f(0xc0000, {0x1, 0x2}).
	open := strings.IndexAny(line, " {")
	call := strings.Index(line, "(0x")
	if call < 0 {
		call = strings.Index(line, "({0x")
	}
	if call < 0 {
		call = strings.Index(line, "(...)")
	}
	return call > 0 && (open < 0 || call < open || line[open-1] == '(')
}
