// Reads a file that is dropped on the page Scan, and completes the keys of rules from the JSON
// Schema of the rule language.
"use strict";
(() => {
  const MAX = 65536; // bytes that are scanned
  const area = document.getElementById("lines");
  async function take(file) {
    // The newest part of a log tells the most; its first line is whole.
    const part = file.slice(Math.max(0, file.size - MAX));
    let text = await part.text();
    if (part.size < file.size) text = text.slice(text.indexOf("\n") + 1);
    area.value = text;
    document.getElementById("dropped").textContent = file.name + (part.size < file.size ? ": only its last 64 KiB" : "");
    document.getElementById("file").value = "";
  }
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (ev) => {
      if (!ev.dataTransfer?.types.includes("Files")) return;
      ev.preventDefault();
      const file = ev.dataTransfer.files[0];
      if (file) take(file);
    });
  }
  document.getElementById("file").addEventListener("change", (ev) => { if (ev.target.files[0]) take(ev.target.files[0]); });
})();
(() => {
  const area = document.getElementById("rules");
  const list = document.getElementById("completion");
  let hints = null;
  async function load() {
    if (hints) return;
    hints = {};
    try {
      hints = await (await fetch(area.dataset.complete)).json();
    } catch {
      hints = null; // the daemon does not answer, which the page says
    }
    show();
  }

  // parse returns where the key of a line begins, and the dash before it.
  const parse = (line) => {
    const m = /^( *)((?:- +)*)([\w.]*)(:?)/.exec(line);
    return { first: m[1].length, at: m[1].length + m[2].length, dash: m[2] !== "", key: m[4] ? m[3] : "" };
  };

  // place returns the kind of object that the cursor is in, the keys that it has, and the
  // part of a key before the cursor; null if no key can be there.
  function place() {
    const before = area.value.slice(0, area.selectionStart).split("\n");
    const line = before.pop();
    const own = /^( *(?:- +)*)(\w*)$/.exec(line);
    if (!own) return null;
    const path = [], has = new Set();
    let limit = own[1].length, same = limit, item = /- /.test(own[1]), listed = item;
    if (item) { limit = own[1].indexOf("-") + 1; same = -1; }
    for (const above of before.reverse()) {
      if (!above.trim() || /^ *#/.test(above)) continue;
      const p = parse(above);
      if (p.at === same && p.key && path.length === 0) {
        has.add(p.key);
        if (p.dash) { limit = p.first + 1; same = -1; listed = true; }
        continue;
      }
      if (p.at < limit && p.key) {
        path.unshift(p.key);
        same = -1;
        limit = p.dash ? p.first + 1 : p.at;
        listed = listed || p.dash;
      }
      if (limit === 0) break;
    }
    let kind = /^(rules|pack|defaults)$/.test(path[0]) || !(listed || path.length) ? "PackFile" : "Rule";
    for (const key of path) kind = hints?.[kind]?.[key]?.r;
    return { kind, has, part: own[2] };
  }

  function candidates(p) {
    const keys = Object.keys(hints?.[p?.kind] || {});
    return keys.filter((k) => k.startsWith(p.part) && k !== p.part && !p.has.has(k)).sort();
  }
  function insert(key, part) {
    area.focus();
    area.setRangeText(key.slice(part.length) + ": ", area.selectionStart, area.selectionStart, "end");
    show();
  }
  function show() {
    list.replaceChildren();
    const p = hints && place();
    if (!p) return;
    for (const key of candidates(p).slice(0, 30)) {
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = key;
      b.title = hints[p.kind][key].d || "";
      b.tabIndex = -1; // Ctrl+Space does the same
      b.addEventListener("mousedown", (ev) => { ev.preventDefault(); insert(key, p.part); });
      list.append(b, " ");
    }
    const first = candidates(p)[0];
    if (first && p.part) {
      const text = document.createElement("span");
      text.className = "soft";
      text.textContent = `${first}: ${hints[p.kind][first].d || ""}`;
      list.append(text);
    }
  }
  area.addEventListener("focus", load);
  for (const name of ["input", "click", "keyup"]) area.addEventListener(name, show);
  area.addEventListener("keydown", (ev) => {
    if (ev.key !== " " || !ev.ctrlKey) return;
    ev.preventDefault();
    const p = hints && place();
    const all = p ? candidates(p) : [];
    if (!all.length) return;
    // As far as all candidates agree; then the first one.
    let common = all[0];
    for (const key of all) while (!key.startsWith(common)) common = common.slice(0, -1);
    if (all.length === 1 || common === p.part) insert(all[0], p.part);
    else { area.setRangeText(common.slice(p.part.length), area.selectionStart, area.selectionStart, "end"); show(); }
  });
})();
