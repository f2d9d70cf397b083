package discover

import "strings"

// Essence returns the lines of a record that state what happened, on one line: it omits the
// frames of stack traces. A record of one line is returned as it is.
func Essence(record string) string {
	record = strings.TrimRight(record, "\n")
	if strings.IndexByte(record, '\n') < 0 {
		return record
	}
	return strings.Join(telling(record), " / ")
}

// telling returns the lines of a record without the frames of stack traces.
func telling(record string) (out []string) {
	source := false // the line of source text below a frame of Python
	for line := range strings.SplitSeq(record, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case source:
			source = false
		case strings.HasPrefix(line, `File "`):
			source = strings.Contains(line, ", line ")
		case line != "" && !frame(line):
			out = append(out, line)
		}
	}
	return out
}

// frame reports whether a line without white space around it is part of a stack trace.
func frame(line string) bool {
	switch {
	case strings.HasPrefix(line, "[signal "):
		return false // the line states why
	case strings.HasPrefix(line, "at "), strings.HasPrefix(line, "... "):
		return true
	case strings.IndexByte(line, ' ') < 0:
		return strings.HasSuffix(line, ")") || strings.ContainsAny(line, "./")
	}
	return continuation(line)
}

// causeOf returns the line of a record that states the cause: the last "Caused by" of
// Java, or what stands below a traceback of Python; "" if there is none.
func causeOf(record string) string {
	_, rest, more := strings.Cut(record, "\n")
	if !more {
		return ""
	}
	cause, last := "", ""
	for _, line := range telling(rest) {
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

// endings are words of a program that ends because of what it reports.
var endings = []string{
	"exit with error", "exited with error", "exiting with error", "exit with an error", "exiting due to", "problem running manager",
	"panic: ", "observed a panic",
}

// ends reports whether a text says that the program, or a part of it, ended.
func ends(text string) bool {
	text = strings.ToLower(text)
	return containsAny(text, endings) && !containsAny(text, aborted)
}

// canceled are ends of errors which say that the one who asked went away.
var canceled = []string{
	"context canceled", "context cancelled", "io: read/write on closed pipe", "websocket: close sent", "client disconnected",
	"websocket: close 1000 (normal)", "websocket: close 1001 (going away)", "websocket: close 1005 (no status)",
}

// aborted are panics with which the HTTP server of Go ends a response that nobody waits for.
var aborted = []string{"http: abort handler", "killing connection/stream because serving request timed out"}

// cut are ends of errors of a connection that the other side closed. Only while a request
// is answered or passed on is that side the client.
var (
	cut     = []string{"broken pipe", "connection reset by peer"}
	answers = []string{
		"proxy", "writing response", "writing the response", "write response", "write the response", "json response", "tls handshake error",
		"serving request", "handling request", "encoding response", "encode response", "sending response",
	}
	ownFault = []string{"deadline exceeded", "timeout", "timed out", "dial tcp", "connect: "}
)

// clientLeft reports whether a complaint only says that a client ended its request or its
// connection, which is no failure of the program.
func clientLeft(message, err string) bool {
	whole := strings.ToLower(message + "\n" + err)
	if containsAny(whole, aborted) {
		return true
	}
	end := strings.TrimRight(whole, " \t\n.,;:!\"'`)]}")
	for _, text := range canceled {
		// The parenthesis of a websocket's reason is gone.
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
