// Keeps the page fresh while somebody looks at it. Without JavaScript the page
// is complete; a reload of the browser does the same.
"use strict";
setInterval(async () => {
  const active = document.activeElement;
  if (document.hidden || (active && active.tagName === "INPUT") || String(getSelection())) return;
  try {
    const res = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!res.ok) return;
    const next = new DOMParser().parseFromString(await res.text(), "text/html");
    for (const tag of ["main", "footer"]) {
      document.querySelector(tag).replaceWith(document.importNode(next.querySelector(tag), true));
    }
  } catch { /* the daemon is away: keep what is shown */ }
}, 10000);
