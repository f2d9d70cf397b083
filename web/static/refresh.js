// Keeps the page fresh while somebody looks at it, and says when it is stale.
// Without JavaScript the page is complete; a reload of the browser does the same.
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
  note.textContent = "This page is stale: crowsnest " + why + ". It shows the state of " + fresh.toISOString().slice(0, 19).replace("T", " ") + " UTC.";
  document.querySelector("main").classList.add("stale");
}

async function refresh() {
  const active = document.activeElement;
  const busy = (active && active.tagName === "INPUT") || String(getSelection());
  if (document.hidden) return;
  try {
    const res = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(9000) });
    if (res.status >= 500) return stale("answers with status " + res.status);
    const next = new DOMParser().parseFromString(await res.text(), "text/html");
    fresh = new Date();
    document.getElementById("stale")?.remove();
    document.querySelector("main").classList.remove("stale");
    if (busy) return;
    for (const tag of ["main", "footer"]) {
      document.querySelector(tag).replaceWith(document.importNode(next.querySelector(tag), true));
    }
  } catch {
    stale("does not answer");
  }
}
setInterval(refresh, 10000);
document.addEventListener("visibilitychange", refresh);
