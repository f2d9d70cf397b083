package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/test/wait"
)

// attack is the behaviour of one hostile connection.
type attack struct {
	parts  []string      // to send
	every  time.Duration // between two parts
	unread bool          // its answer is never read
	reset  bool          // it ends immediately, without an answer
}

// raw is an attack of one request.
func raw(format string, args ...any) attack {
	return attack{parts: []string{fmt.Sprintf(format, args...)}}
}

// get requests a path like a browser.
func get(path string, heads ...string) attack {
	return raw("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, lines(heads))
}

// post sends a body of n bytes.
func post(path string, n int) attack {
	return raw("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", path, n, strings.Repeat("x", n))
}

func lines(heads []string) string {
	var b strings.Builder
	for _, h := range heads {
		b.WriteString(h + "\r\n")
	}
	return b.String()
}

// slowly sends a text in pieces.
func slowly(a attack, size int) attack {
	var parts []string
	for piece := range slices.Chunk([]byte(a.parts[0]), size) {
		parts = append(parts, string(piece))
	}
	return attack{parts: parts, every: 200 * time.Millisecond}
}

func unread(a attack) attack {
	a.unread = true
	return a
}

// attacks returns the kinds of hostile requests, each created for a number.
// open are the fingerprints of open alerts.
func attacks(open []string) map[string]func(i int) attack {
	filter := func(i int, pattern string) attack { return get(fmt.Sprintf("/?filter=k=~%%22%s%d%%22", pattern, i)) }
	some := func(i int) string { return open[i%len(open)] }
	return map[string]func(i int) attack{
		"repeated expression": func(i int) attack { return filter(i, "((a%7B1,20%7D)%7B1,20%7D)%7B1,20%7D") },
		"nested expression":   func(i int) attack { return filter(i, strings.Repeat("(", 120)+"a"+strings.Repeat(")*", 120)) },
		"unicode classes":     func(i int) attack { return filter(i, strings.Repeat("%5CpL", 50)) },
		"filter of 33 KB":     func(i int) attack { return filter(i, strings.Repeat("(x|y)", 6600)) },
		"costly filter":       func(i int) attack { return get(fmt.Sprintf("/api/v1/episodes?filter=k=~%%22(.*.*.*)x%d%%22", i)) },
		"parameters":          func(i int) attack { return get("/?" + strings.Repeat(fmt.Sprintf("filter=a%d=%%22b%%22&", i), 3000)) },
		"many matchers": func(i int) attack {
			return get("/api/v1/alerts?" + strings.Repeat(fmt.Sprintf("match[]=k!=%%22%d%%22&", i), 30))
		},
		"long path":      func(i int) attack { return get("/" + strings.Repeat(fmt.Sprint("a", i), 10000)) },
		"path traversal": func(int) attack { return get("/static/../../../../etc/passwd") },
		"encoded path":   func(i int) attack { return get(fmt.Sprintf("/episodes/%%00%%2e%%2e%%2f%%0d%%0a%d", i)) },
		"huge header":    func(i int) attack { return get("/", "X-Large: "+strings.Repeat("h", 1<<20)) },
		"many headers":   func(i int) attack { return get("/", slices.Repeat([]string{fmt.Sprintf("X-%d: y", i)}, 20000)...) },
		"slow header":    func(int) attack { return slowly(get("/", "X-Slow: "+strings.Repeat("s", 4000)), 10) },
		"slow body":      func(int) attack { return slowly(post("/-/reload", 4000), 50) },
		"large body":     func(int) attack { return post("/-/reload", 4<<20) },
		"chunked body": func(int) attack {
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("c", 64<<10))
			return raw("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n%s", strings.Repeat(chunk, 64))
		},
		"endless chunk": func(int) attack {
			return raw("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffff\r\nx")
		},
		"body of a get": func(i int) attack { return get(fmt.Sprintf("/api/v1/rules?%d", i), "Content-Length: 9000000") },
		"ranges":        func(int) attack { return get("/static/style.css", "Range: bytes="+strings.Repeat("0-,", 1000)+"0-1") },
		"HTTP/1.0":      func(i int) attack { return raw("GET /?%d HTTP/1.0\r\n\r\n", i) },
		"pipelined": func(i int) attack {
			return raw("%s", strings.Repeat(get(fmt.Sprintf("/api/v1/episodes?%d", i)).parts[0], 50))
		},
		"unread pages":    func(i int) attack { return unread(get(fmt.Sprintf("/?u%d", i))) },
		"unread API":      func(i int) attack { return unread(get(fmt.Sprintf("/api/v1/episodes?u%d", i))) },
		"unread pipeline": func(i int) attack { return unread(raw("%s", strings.Repeat(get("/metrics").parts[0], 50))) },
		"left at once":    func(i int) attack { a := get(fmt.Sprintf("/api/v1/episodes?l%d", i)); a.reset = true; return a },
		"gzip":            func(i int) attack { return get(fmt.Sprintf("/?z%d", i), "Accept-Encoding: gzip, br, zstd") },
		"HEAD":            func(i int) attack { return raw("HEAD /?%d HTTP/1.1\r\nHost: a\r\n\r\n", i) },
		"OPTIONS":         func(int) attack { return raw("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") },
		"TRACE":           func(int) attack { return raw("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n") },
		"CONNECT":         func(int) attack { return raw("CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: a\r\n\r\n") },
		"foreign host":    func(i int) attack { return raw("GET /?%d HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", i) },
		"foreign origin": func(int) attack {
			return raw("POST /-/reload HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example.org\r\nContent-Length: 0\r\n\r\n")
		},
		"websocket": func(int) attack {
			return get("/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
		},
		"HTTP/2": func(int) attack { return raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") },
		"TLS": func(int) attack {
			return raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03%s", strings.Repeat("\xff", 500))
		},
		"garbage": func(int) attack { return raw("%s", strings.Repeat("\x00\xff\x7f\r", 10000)) },
		"silence": func(int) attack { return attack{parts: []string{""}} },
		"smuggled": func(int) attack {
			return raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x")
		},
		"profile": func(int) attack { return get("/debug/pprof/profile?seconds=60") },
		"metrics": func(i int) attack { return get(fmt.Sprintf("/metrics?%d", i), "Accept: application/openmetrics-text") },
		"limits": func(i int) attack {
			return get(fmt.Sprintf("/api/v1/episodes?limit=-9223372036854775808&state=firing&%d", i))
		},
		"status":   func(i int) attack { return get(fmt.Sprintf("/status?%d", i)) },
		"rules":    func(i int) attack { return get(fmt.Sprintf("/rules?%d", i)) },
		"timeline": func(i int) attack { return get("/api/v1/episodes/" + some(i) + "/timeline") },
		"alert":    func(i int) attack { return get(fmt.Sprintf("/episodes/%s?%d", some(i), i)) },
	}
}

// run sends the attack and stays connected until hold has passed or the server
// disconnects. The answer does not matter.
func (a attack) run(ctx context.Context, addr string, hold time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	defer conn.Close()
	var sent sync.WaitGroup
	if !a.unread && !a.reset {
		sent.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	}
	defer sent.Wait()
	for i, part := range a.parts {
		if _, err := conn.Write([]byte(part)); err != nil {
			break
		}
		if a.every > 0 && i < len(a.parts)-1 {
			wait.Pause(ctx, a.every)
		}
	}
	if a.unread {
		<-ctx.Done()
	}
}
