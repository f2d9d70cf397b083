// Package mcp serves what crowsnest knows to programs that use language models, over the Model
// Context Protocol. Every tool only reads: the HTTP API of one daemon, rule packs, and logs
// that the call contains or that are in folders the user named.
//
// Each answer says up to when the data were read and what could not be seen. Text that comes
// from logs is in fields named from_logs, is redacted, and has no control characters. Every
// answer is bounded, and says what it leaves out.
package mcp
