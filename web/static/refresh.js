// Refreshes the page while it is visible, and marks it as stale on failure.
// Without JavaScript, reloading the page has the same effect.
"use strict";
let fresh = new Date();

function stale(why) {
  let note = document.getElementById("stale");
  if (!note) {
    note = document.createElement("section");
    note.id = "stale";
    note.className = "notice stale";
    note.setAttribute("role", "alert");
    document.body.insertBefore(note, document.querySelector("main"));
  }
  note.textContent = "This page is stale: crowsnest " + why + ". It shows the state at " + fresh.toISOString().slice(0, 19).replace("T", " ") + " UTC.";
  document.querySelector("main").classList.add("stale");
}

async function refresh() {
  const active = document.activeElement;
  const busy = (active && active.tagName === "INPUT") || String(getSelection());
  if (document.hidden) return;
  try {
    const res = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(9000) });
    if (res.status >= 500) return stale("responded with status " + res.status);
    const next = new DOMParser().parseFromString(await res.text(), "text/html");
    fresh = new Date();
    document.getElementById("stale")?.remove();
    document.querySelector("main").classList.remove("stale");
    if (busy) return;
    for (const tag of ["main", "footer"]) {
      document.querySelector(tag).replaceWith(document.importNode(next.querySelector(tag), true));
    }
  } catch {
    stale("does not respond");
  }
}
setInterval(refresh, 10000);
document.addEventListener("visibilitychange", refresh);
