// Keeps a page up to date and adds the keyboard. Without it every page shows the same
// facts; reloading updates them.
"use strict";
(() => {
  const SILENCE = 12000; // without a message for that long, the daemon is taken for dead
  const PACE = 3000; // between two updates of the page
  const POLL = 10000; // if there is no stream
  const page = document.documentElement;
  page.classList.add("js");
  const byId = (id) => document.getElementById(id);
  const clockOf = (date) => date.toISOString().slice(11, 19);

  // ---- times ----
  let skew = 0; // clock of the daemon minus that of the browser
  const now = () => Date.now() + skew;
  function span(ms) {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m " + (s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h " + (Math.floor(s / 60) % 60) + "m";
    return Math.floor(s / 86400) + "d " + (Math.floor(s / 3600) % 24) + "h";
  }
  function ages() {
    for (const t of document.querySelectorAll("time[data-ago], time[data-since]")) {
      const d = now() - Date.parse(t.dateTime);
      let text = span(Math.abs(d));
      if ("since" in t.dataset && d >= 60000 && d < 3600000) text = text.split(" ")[0];
      if ("ago" in t.dataset) text = d < 0 ? "in " + text : text + " ago";
      if (t.textContent !== text) t.textContent = text;
    }
  }

  // ---- is the daemon alive ----
  let heard = Date.now();
  function alive(time) {
    heard = Date.now();
    if (time) skew = Date.parse(time) - heard;
    page.classList.remove("stale");
    byId("live").classList.add("on");
    byId("clock").textContent = "live " + clockOf(new Date(now()));
    if (byId("stale").textContent) byId("stale").textContent = "";
  }
  function dead() {
    if (page.classList.contains("stale")) return;
    page.classList.add("stale");
    byId("live").classList.remove("on");
    const at = clockOf(new Date(heard + skew));
    byId("clock").textContent = "no answer";
    byId("stale").textContent = "No answer from crowsnest since " + at + " UTC. This page shows the state of that time.";
  }

  // ---- updates ----
  // Changes the old tree into the new one and leaves what is equal alone, so that focus,
  // scroll position, selection, open rows and typed text stay.
  function morph(from, to) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) return from.replaceWith(document.importNode(to, true));
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.nodeName === "TIME" && from.dateTime === to.dateTime) return;
    for (const a of [...from.attributes]) {
      if (!to.hasAttribute(a.name) && a.name !== "open" && a.name !== "hidden") from.removeAttribute(a.name);
    }
    for (const a of to.attributes) {
      if (a.name !== "open" && a.name !== "hidden" && from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
    }
    if (from.nodeName === "INPUT" || from.nodeName === "TEXTAREA") return;
    children(from, to);
  }
  const keyOf = (n) => (n.nodeType === Node.ELEMENT_NODE && n.id) || "";
  function children(from, to) {
    const named = new Map();
    for (const n of from.childNodes) if (keyOf(n)) named.set(n.id, n);
    const wanted = new Set([...to.childNodes].map(keyOf).filter(Boolean));
    let at = from.firstChild;
    for (const n of [...to.childNodes]) {
      const skip = (x) => x && (x.classList?.contains("copy") || (keyOf(x) && !wanted.has(x.id)));
      while (skip(at)) {
        const next = at.nextSibling;
        if (!at.classList.contains("copy")) at.remove();
        at = next;
      }
      const same = keyOf(n) ? named.get(n.id) : at && !keyOf(at) && at.nodeName === n.nodeName ? at : null;
      if (!same) {
        from.insertBefore(document.importNode(n, true), at);
        continue;
      }
      if (same === at) at = at.nextSibling;
      else from.insertBefore(same, at);
      morph(same, n);
    }
    while (at) {
      const next = at.nextSibling;
      if (!at.classList?.contains("copy")) at.remove();
      at = next;
    }
  }

  const still = /^\/scan$|\/silence$/.test(location.pathname); // nothing on them changes by itself
  let loading = false, due = false, last = Date.now();
  async function update() {
    if (still || document.hidden) return;
    if (loading) { due = true; return; }
    loading = true;
    due = false;
    try {
      const res = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(9000) });
      if (res.status === 503) throw new Error("busy");
      const text = await res.text(), began = performance.now();
      const next = new DOMParser().parseFromString(text, "text/html");
      const main = next.querySelector("main");
      if (!main || String(getSelection()).length > 1) return;
      document.title = next.title;
      morph(document.querySelector("main"), main);
      enhance();
      ages();
      performance.measure("update", { start: began });
      if (!source) alive("");
    } catch {
      // The watch below notices that nothing answers.
    } finally {
      loading = false;
      last = Date.now();
      if (due) soon();
    }
  }
  let timer = 0;
  function soon() {
    if (timer) return;
    timer = setTimeout(() => { timer = 0; update(); }, Math.max(200, PACE - (Date.now() - last)));
  }

  // ---- stream ----
  let source = null, waiting = 0, retries = 0;
  const shown = (fp) => document.querySelector(`[id^="e-${fp}"]`) || location.pathname.startsWith("/episodes/" + fp);
  function changed(change) {
    if (change.more || change.gone.some(shown)) return soon();
    if (change.episodes.some((e) => shown(e.fingerprint) || (e.turned && location.pathname === "/"))) soon();
  }
  function connect() {
    clearTimeout(waiting);
    if (source || document.hidden) return;
    source = new EventSource("/api/v1/stream");
    const on = (name, f) => source.addEventListener(name, (m) => { const d = JSON.parse(m.data); alive(d.time); f(d); });
    on("hello", () => { retries++; if (retries > 1) soon(); });
    on("alive", () => {});
    on("change", changed);
    source.onerror = () => { disconnect(); probe(); };
  }
  function disconnect() {
    source?.close();
    source = null;
  }
  // After an error: is the daemon dead, or is only the stream refused?
  async function probe() {
    try {
      const res = await fetch("/-/healthy", { cache: "no-store", signal: AbortSignal.timeout(3000) });
      await res.text();
      alive("");
      update();
      waiting = setTimeout(connect, POLL);
    } catch {
      dead();
      waiting = setTimeout(connect, 2000);
    }
  }
  setInterval(() => {
    if (document.hidden) return;
    ages();
    if (page.classList.contains("stale")) return;
    if (Date.now() - heard > SILENCE) { disconnect(); dead(); probe(); }
  }, 1000);
  // What is not in the stream: rates, small charts, the state of sources and rules.
  const calm = location.pathname === "/" || location.pathname.startsWith("/episodes/") ? POLL : 3 * POLL;
  setInterval(() => { if (source && Date.now() - last > calm) update(); }, POLL);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return disconnect(); // browsers allow few connections: tabs in the background have none
    heard = Date.now();
    connect();
    soon();
  });

  // ---- copying ----
  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // without TLS there is no clipboard
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  }
  function enhance() {
    for (const x of document.querySelectorAll("[data-copy], .prose ol > li > code, .prose ol pre")) {
      if (x.nextElementSibling?.classList.contains("copy")) continue;
      const b = document.createElement("button");
      b.type = "button";
      b.className = "copy";
      b.textContent = "Copy";
      b.addEventListener("click", () => copy(x.textContent, b));
      x.after(b);
    }
    for (const b of document.querySelectorAll("[data-copy-from]")) {
      b.hidden = false;
      b.onclick = () => copy(byId(b.dataset.copyFrom).textContent, b);
    }
  }

  // ---- keyboard ----
  const rows = () => [...document.querySelectorAll(".row > details > summary, .space > summary, .pack > summary, tbody th a")].filter((r) => r.offsetParent);
  function move(by) {
    const all = rows();
    const here = document.activeElement?.closest(".row, .space")?.querySelector("summary") || document.activeElement;
    const at = all.indexOf(here);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
  const row = () => document.activeElement?.closest(".row, .space");
  const help = byId("help");
  const keys = {
    "/": () => { byId("filter")?.focus(); byId("filter")?.select(); },
    j: () => move(1),
    k: () => move(-1),
    o: () => { const d = row()?.closest("details") || row()?.querySelector("details"); if (d) d.open = !d.open; },
    e: () => row()?.querySelector("a.go")?.click(),
    s: () => (row() || document).querySelector("[data-silence]")?.click(),
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  document.addEventListener("keydown", (ev) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(ev.target.tagName);
    if (typing) {
      if (ev.key === "Escape") ev.target.blur();
      if (ev.key === "Enter" && ev.ctrlKey && ev.target.tagName === "TEXTAREA") ev.target.form.requestSubmit();
      return;
    }
    if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
    const f = keys[ev.key];
    if (f && (!help.open || ev.key === "?")) { ev.preventDefault(); f(); }
  });
  const button = byId("keys");
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());

  const here = document.querySelector("nav [aria-current]"); // on a phone the list of pages scrolls
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.clientWidth / 2;

  enhance();
  ages();
  connect();
})();
