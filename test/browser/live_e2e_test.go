//go:build e2e

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/servers"
)

// Alertmanager shows a silence that has the labels of the alert.
func TestSilenceIsPrefilled(t *testing.T) {
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	s := &scene{alerts: 3, alertmanager: am.URL}
	b := open(browser(t), t, s.serve(t), firing, desktop)
	link := eval[string](b, `document.querySelector("[data-silence]").href`)
	b.close()
	b = open(browser(t), t, am.URL, strings.TrimPrefix(link, am.URL), desktop)
	e := s.episode(0)
	for name, value := range e.Labels {
		b.until(fmt.Sprintf("document.body.innerText.includes(%q)", name+"="+strconv.Quote(value)))
	}
	b.screenshot("silence")
	require.NoError(t, chromedp.Cancel(b.ctx))
}

// A silence is made with a form and the keyboard, and the page says so.
func TestSilenceIsMade(t *testing.T) {
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	s := &scene{alerts: 3, alertmanager: am.URL, silence: true}
	b := open(browser(t), t, s.serve(t), firing, desktop)
	b.press("s")
	b.until(`location.pathname.endsWith("/silence")`)
	require.Empty(t, b.axe())
	b.press(kb.Tab)
	b.fill("author", "Ada")
	b.run(chromedp.SendKeys("#comment", "planned work"+kb.Enter, chromedp.ByQuery))
	b.until(`document.body.innerText.includes("Silenced until")`)
	require.Empty(t, b.axe())
	b.screenshot("silenced")
	link := eval[string](b, `document.querySelector(".made a").href`)
	b.close()
	b = open(browser(t), t, am.URL, strings.TrimPrefix(link, am.URL), desktop)
	b.until(`document.body.innerText.includes("planned work")`)
	require.NoError(t, chromedp.Cancel(b.ctx))
}

// paint returns when the first content of a page was painted, in milliseconds: the median of
// some loads.
func paint(in context.Context, t *testing.T, base, path string) float64 {
	var all []float64
	for range 7 {
		b := open(in, t, base, path, desktop)
		all = append(all, eval[float64](b, `new Promise(r => new PerformanceObserver(l => { for (const e of l.getEntries()) if (e.name === "first-contentful-paint") r(e.startTime) }).observe({type: "paint", buffered: true}))`))
		require.NoError(t, chromedp.Cancel(b.ctx))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// measured makes the page measure how long its script works on updates.
const measured = `(() => { window.busy = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) window.busy = Math.max(window.busy, e.duration) }).observe({type: "measure"}); return true })()`

// 5,000 alerts: the page is bounded, and so is an update.
func TestManyAlerts(t *testing.T) {
	s := &scene{alerts: 5000, streams: 500}
	in, base := browser(t), s.serve(t)
	b := open(in, t, base, "/?group=none", desktop) // the first one: it has nothing in its cache
	t.Logf("the page has %d elements", eval[int](b, `document.querySelectorAll("*").length`))
	require.Less(t, eval[int](b, `document.querySelectorAll("*").length`), 5000)
	b.until(`document.getElementById("live").classList.contains("on")`)
	eval[bool](b, measured)
	before, count := b.received(), `Number(document.querySelector("#e-0abc000000000000 .c-count").textContent)`
	t.Logf("the page has %d bytes, compressed", before)
	require.Less(t, before, int64(150<<10))
	lines := eval[int](b, count)
	s.changes.Add(1000)
	b.until(fmt.Sprintf("%s >= %d", count, lines+1000))
	t.Logf("an update has at most %d bytes, compressed, and takes %.0f ms of the script", b.received()-before, eval[float64](b, "window.busy"))
	require.Less(t, b.received()-before, int64(50<<10))
	b.close()
	b = open(in, t, base, "/", desktop)
	require.Less(t, eval[int](b, `document.querySelectorAll("*").length`), 7000)
	b.screenshot("many")
	b.close()
	empty := paint(in, t, (&scene{calm: true, streams: 3}).serve(t), "/")
	t.Logf("first contentful paint after %.0f ms; without alerts %.0f ms", paint(in, t, base, "/"), empty)
}

// A daemon that was killed, or hangs, is noticed, and so is its return.
func TestDeadDaemonIsNoticed(t *testing.T) {
	servers.Program(t, "chromium")
	dir := t.TempDir()
	binary := filepath.Join(dir, "crowsnest")
	require.NoError(t, daemon.Build(binary))
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	logs := filepath.Join(dir, "app.log")
	require.NoError(t, os.WriteFile(logs, []byte("nothing\n"), 0o644))
	d := &daemon.Daemon{Binary: binary, Dir: dir, Addr: addr}
	require.NoError(t, d.Configure("sources:\n  files: [{paths: [{path: "+logs+"}]}]\n"))
	require.NoError(t, d.Start())
	require.NoError(t, d.Ready(t.Context(), patience))
	b := open(browser(t), t, "http://"+addr, "/", desktop)
	b.ignore("net::ERR_")
	b.until(`document.getElementById("live").classList.contains("on")`)
	for _, how := range []os.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		began := time.Now()
		if how == syscall.SIGKILL {
			_, _ = d.End(how) // the error is that it was killed
		} else {
			d.Signal(how)
		}
		b.until(`/No answer from crowsnest since \d\d:\d\d:\d\d UTC/.test(document.getElementById("stale").textContent)`)
		t.Logf("noticed %v after %v", how, time.Since(began))
		b.screenshot("dead")
		if how == syscall.SIGKILL {
			require.NoError(t, d.Start())
		} else {
			d.Signal(syscall.SIGCONT)
		}
		b.until(`document.getElementById("stale").textContent === "" && document.getElementById("live").classList.contains("on")`)
	}
	b.close()
	_, err = d.End(syscall.SIGTERM)
	require.NoError(t, err)
}
