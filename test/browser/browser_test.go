// Package browser tests the pages in a real Chromium, which `make e2e-servers` installs
// where it can, together with axe-core.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"crowsnest/test/servers"
	"crowsnest/test/wait"
)

// patience is how long a page may take for anything, on a machine that does other work.
const patience = 4 * time.Minute

// browser starts a headless Chromium that ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	profile, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(servers.Program(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.UserDataDir(profile))
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {})) // it does not know every event
	require.NoError(t, chromedp.Run(ctx))
	t.Cleanup(func() {
		cancel()
		stop()
		// Helpers of Chromium write to the profile for a moment after it has ended.
		require.Eventually(t, func() bool { return os.RemoveAll(profile) == nil }, patience, 50*time.Millisecond)
	})
	return ctx
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
	noScript      bool
}

func (l look) String() string {
	return fmt.Sprintf("%d-%s", l.width, map[bool]string{true: "dark", false: "light"}[l.dark])
}

// tab is one page with what it did.
type tab struct {
	ctx  context.Context
	t    *testing.T
	base string

	mu       sync.Mutex
	problems []string // errors of the console, and requests to elsewhere
	ignored  []string // texts of problems that are expected
	bytes    int64    // of all responses but the stream
}

// open opens an address of the server in a new tab.
func open(in context.Context, t *testing.T, base, path string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	b := &tab{ctx: ctx, t: t, base: base}
	chromedp.ListenTarget(ctx, b.listen)
	require.NoError(t, chromedp.Run(ctx)) // the tab ends with the context of its first actions
	b.run(network.Enable(), cdplog.Enable(), runtime.Enable(), emulation.SetScriptExecutionDisabled(l.noScript))
	b.look(l)
	b.run(chromedp.Navigate(base + path))
	return b
}

// look changes the size of the window and the scheme.
func (b *tab) look(l look) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[l.dark]
	b.run(
		emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.width < 800),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	)
}

// close closes the tab and checks that nothing went wrong in it.
func (b *tab) close() {
	b.t.Helper()
	b.mu.Lock()
	problems := slices.DeleteFunc(slices.Clone(b.problems), func(p string) bool {
		return slices.ContainsFunc(b.ignored, func(text string) bool { return strings.Contains(p, text) })
	})
	b.mu.Unlock()
	require.Empty(b.t, problems)
	require.NoError(b.t, chromedp.Cancel(b.ctx))
}

func (b *tab) note(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *tab) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.note("exception: %s", ev.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.note("console: %s", ev.Type)
	case *cdplog.EventEntryAdded:
		b.note("log: %s %s", ev.Entry.Text, ev.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, b.base+"/") && !strings.HasPrefix(ev.Request.URL, "data:") {
			b.note("request to %s", ev.Request.URL)
		}
	case *network.EventLoadingFinished:
		b.bytes += int64(ev.EncodedDataLength)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Run(ctx, actions...))
}

// eval returns the value of an expression; a promise is awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var out T
	b.run(chromedp.Evaluate(expression, &out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return out
}

// until waits until an expression is true, also if the tab goes to another page meanwhile.
func (b *tab) until(expression string) {
	b.t.Helper()
	ok := wait.Until(patience, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		var is bool
		return chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &is)) == nil && is
	})
	require.True(b.t, ok, expression)
}

// press presses keys, one after the other. It waits for the scripts of the page first: a page
// that has just been opened ignores keys until they run.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	b.until(`document.readyState === "complete"`)
	for _, k := range keys {
		if len(k) != 1 || k < " " {
			b.run(chromedp.KeyEvent(k))
			continue
		}
		// Unlike KeyEvent, this types nothing if the page handles the key itself.
		b.run(input.DispatchKeyEvent(input.KeyDown).WithKey(k).WithText(k), input.DispatchKeyEvent(input.KeyUp).WithKey(k))
	}
}

// fill sets the value of an input.
func (b *tab) fill(id, value string) {
	b.t.Helper()
	text, err := json.Marshal(value)
	require.NoError(b.t, err)
	eval[string](b, fmt.Sprintf("document.getElementById(%q).value = %s", id, text))
}

// axe returns the violations that axe-core finds.
func (b *tab) axe() []string {
	b.t.Helper()
	if eval[string](b, "typeof axe") == "undefined" {
		source, err := os.ReadFile(axeFile(b.t))
		require.NoError(b.t, err)
		b.run(chromedp.Evaluate(string(source)+";undefined", nil))
	}
	text := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => v.id + " (" + v.impact + "): " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0]?.message || n.all[0]?.message || "")).join(" | "))))`)
	var out []string
	require.NoError(b.t, json.Unmarshal([]byte(text), &out))
	return out
}

// axeFile returns axe-core, and skips the test if it is missing.
func axeFile(t *testing.T) string {
	t.Helper()
	return servers.File(t, "axe.min.js")
}

// overflow returns the elements that are wider than the page.
func (b *tab) overflow() []string {
	b.t.Helper()
	return eval[[]string](b, `(() => { const w = document.documentElement.clientWidth; if (document.documentElement.scrollWidth <= w) return [];
		return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > w + 1).slice(0, 5).map(e => e.outerHTML.slice(0, 160)) })()`)
}

// screenshot writes a picture of what is visible.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("CROWSNEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), small(b.t, png), 0o644))
}
