package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"crowsnest/test/wait"
)

var desktop = look{width: 1440, height: 900}

// What a reader does survives updates: focus, typed text, scroll position, selection and open
// rows; and new alerts appear.
func TestUpdatesKeepWhatTheReaderDoes(t *testing.T) {
	s := &scene{alerts: 65, streams: 10}
	b := open(browser(t), t, s.serve(t), "/", desktop)
	b.until(`document.getElementById("live").classList.contains("on")`)
	count := `Number(document.querySelector("#e-0abc000000000000 .c-count").textContent)`
	before := eval[int](b, count)
	b.press("/")
	b.run(chromedp.KeyEvent("paym"))
	eval[bool](b, `document.querySelectorAll(".row details")[3].open = true`)
	eval[bool](b, `(scrollTo(0, 200), true)`)
	s.changes.Add(1000)
	b.until(fmt.Sprintf("%s >= %d", count, before+1000))
	require.Equal(t, "filter", eval[string](b, `document.activeElement.id`))
	require.Equal(t, "paym", eval[string](b, `document.activeElement.value`))
	require.True(t, eval[bool](b, `document.querySelectorAll(".row details")[3].open`))
	require.Equal(t, 200, eval[int](b, `Math.round(scrollY)`))

	b.press(kb.Escape, "j", "j")
	focused := `document.activeElement.closest(".row")?.id`
	id := eval[string](b, focused)
	require.NotEmpty(t, id)
	s.changes.Add(1000)
	b.until(fmt.Sprintf("%s >= %d", count, before+2000))
	require.Equal(t, id, eval[string](b, focused))
	rows := eval[int](b, `Number(document.querySelector(".state-firing b").textContent)`)
	s.extra.Add(5)
	b.until(fmt.Sprintf(`Number(document.querySelector(".state-firing b").textContent) > %d`, rows))
	b.close()
}

// Everything works with the keyboard alone.
func TestKeyboard(t *testing.T) {
	s := &scene{alerts: 65, streams: 10}
	base := s.serve(t)
	b := open(browser(t), t, base, "/", desktop)
	b.press("j", "o")
	b.until(`document.activeElement.closest("details").open`)
	b.press("j", "k", "o")
	b.until(`!document.activeElement.closest("details").open`)
	b.press("?")
	b.until(`document.getElementById("help").open`)
	require.Empty(t, b.axe())
	b.press(kb.Escape)
	b.until(`!document.getElementById("help").open`)
	b.press("/")
	b.run(chromedp.KeyEvent("payments" + kb.Enter))
	b.until(`location.search.includes("payments") && document.querySelectorAll(".row").length > 0 && [...document.querySelectorAll(".row")].every(r => r.textContent.includes("payments"))`)
	b.press("j", "e")
	b.until(`location.pathname.startsWith("/episodes/")`)
	b.close()

	// Every control can be reached with Tab, and shows it.
	b = open(browser(t), t, base, "/sources", desktop)
	seen := map[string]bool{}
	for range 20 {
		b.press(kb.Tab)
		seen[eval[string](b, `document.activeElement.textContent.trim().slice(0, 20)`)] = true
		require.NotEqual(t, "none", eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`))
	}
	for _, want := range []string{"Skip to content", "Alerts", "Search"} {
		require.Contains(t, seen, want)
	}
	b.close()
}

// Without JavaScript every page shows the same facts, rows open, searching works, and so does
// the page Scan.
func TestWithoutJavaScript(t *testing.T) {
	s := &scene{alerts: 65, streams: 146}
	base := s.serve(t)
	in := browser(t)
	plain := look{width: 360, height: 740, noScript: true}
	b := open(in, t, base, "/", plain)
	b.run(
		chromedp.Click(".row summary", chromedp.ByQuery),
		chromedp.WaitVisible(".row details[open] .inside", chromedp.ByQuery),
		chromedp.SendKeys("#filter", "payments"+kb.Enter, chromedp.ByQuery),
		chromedp.WaitVisible(`a[href="/"].button`, chromedp.ByQuery),
	)
	b.screenshot("noscript-alerts")
	b.close()
	b = open(in, t, base, "/scan", plain)
	b.run(
		chromedp.Click("form.play summary", chromedp.ByQuery),
		chromedp.SendKeys("#rules", pump, chromedp.ByQuery),
		chromedp.SendKeys("#lines", "valve stuck at 5", chromedp.ByQuery),
		chromedp.Click("form.play button", chromedp.ByQuery),
		chromedp.WaitVisible("#result", chromedp.ByQuery),
	)
	var text string
	b.run(chromedp.Text("#result", &text, chromedp.ByQuery))
	require.Contains(t, text, "PumpStuck")
	require.Contains(t, text, `contains "valve stuck"`)
	b.close()
}

// pump is a rule with a test.
const pump = `- alert: PumpStuck
  from: '{container="pump"}'
  severity: warning
  match: valve stuck
  tests:
  - {name: fires, stream: {container: pump}, input: [{at: 0s, line: valve stuck}], expect: [{at: 1m, firing: [{alertname: PumpStuck}]}]}
`

// The page Scan explains hostile lines without executing them.
func TestScan(t *testing.T) {
	s := &scene{alerts: 1}
	base := s.serve(t)
	b := open(browser(t), t, base, "/scan?rule="+s.set.Rules[0].Alert, desktop)
	require.Contains(t, eval[string](b, `document.getElementById("rules").value`), "- alert: "+s.set.Rules[0].Alert)
	b.fill("rules", pump)
	b.fill("lines", hostile+"\nE0101 leaderelection lost")
	b.fill("labels", "")
	b.run(
		chromedp.Click("form.play button", chromedp.ByQuery),
		chromedp.WaitVisible("#result", chromedp.ByQuery),
	)
	require.Contains(t, eval[string](b, `document.getElementById("result").innerText`), "passed")
	require.Empty(t, b.axe())
	require.Empty(t, b.overflow())
	b.screenshot("scan-result")
	b.close()
}

// The page Scan completes the keys that can be at the cursor.
func TestCompletion(t *testing.T) {
	s := &scene{alerts: 1}
	b := open(browser(t), t, s.serve(t), "/scan", desktop)
	at := func(text string) []string { // with the cursor at the end
		b.fill("rules", text)
		return eval[[]string](b, `(() => { const a = document.getElementById("rules"); a.focus(); a.setSelectionRange(a.value.length, a.value.length);
			a.dispatchEvent(new Event("input")); return [...document.querySelectorAll("#completion button")].map(x => x.textContent) })()`)
	}
	b.run(chromedp.Click("form.play summary", chromedp.ByQuery), chromedp.Focus("#rules", chromedp.ByQuery))
	require.True(t, wait.Until(patience, func() bool { return len(at("")) > 0 }))
	require.Equal(t, []string{"defaults", "pack", "rules"}, at(""))
	require.Contains(t, at("- alert: A\n  "), "severity")
	require.NotContains(t, at("- alert: A\n  "), "alert", "it is there already")
	require.Equal(t, []string{"severity"}, at("- alert: A\n  from: x\n  sev"))
	require.Contains(t, at("- alert: A\n  match:\n    "), "regex")
	require.Contains(t, at("- alert: A\n  match:\n    any:\n    - "), "regex")
	require.Contains(t, at("- alert: A\n  match: x\n  "), "clear")
	require.Contains(t, at("pack: {name: x}\nrules:\n- alert: A\n  remediation:\n    "), "steps")
	require.Contains(t, at("- alert: A\n  match: x\n- "), "alert")
	require.Empty(t, at("- alert: A\n  severity: "))
	require.Empty(t, at("- alert: A\n  labels:\n    "), "any name can be there")
	at("- alert: A\n  sev")
	b.run(chromedp.KeyEvent(" ", chromedp.KeyModifiers(input.ModifierCtrl)))
	require.Equal(t, "- alert: A\n  severity: ", eval[string](b, `document.getElementById("rules").value`))
	require.Empty(t, b.axe())
	b.close()
}
