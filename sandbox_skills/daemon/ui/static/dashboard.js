"use strict";
/* All that moves on a page: it renews itself, follows a stream, and sends small forms without leaving.
   The server renders everything; without this script every page still works after a reload.
   Texts of strangers are only ever set as text. Markup comes from one place, the page itself, through one policy. */

const LOG_CHARACTERS = 1000000; // what a phone still scrolls
const GROWING = ".log[id]"; // shown at its end; other texts begin at their beginning
const trusted = window.trustedTypes
  ? window.trustedTypes.createPolicy("dashboard", { createHTML: (text) => text })
  : { createHTML: (text) => text };

let stream = null;
let renewing = null;

/* Puts what the server shows now in the place of #live; leaves it while somebody types or selects in it. */
async function renew(forced) {
  const live = document.getElementById("live");
  if (!live || renewing || document.hidden || (!forced && isInUse(live))) return;
  renewing = fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
  try {
    const answer = await renewing;
    if (answer.type === "opaqueredirect") return location.reload();
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(trusted.createHTML(await answer.text()), "text/html");
    const next = page.getElementById("live");
    if (next) replace(live, document.adoptNode(next));
  } catch {
    // The server is away just now: the next round asks again.
  } finally {
    renewing = null;
  }
}

function isInUse(live) {
  const selected = getSelection();
  const selects = selected && !selected.isCollapsed && live.contains(selected.anchorNode);
  return selects || (document.activeElement !== document.body && live.contains(document.activeElement));
}

function replace(old, next) {
  const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
  const closed = [...old.querySelectorAll("details:not([open])[id]")].map((one) => one.id);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  for (const one of next.querySelectorAll("details[id]")) {
    if (open.includes(one.id)) one.open = true;
    if (closed.includes(one.id)) one.open = false;
  }
  old.replaceWith(next);
  if (focused) document.getElementById(focused)?.focus();
  for (const log of next.querySelectorAll(GROWING)) log.scrollTop = log.scrollHeight;
  follow();
}

/* Follows the stream that #live names: `append` adds text to a log, `renew` asks for the page again. */
function follow() {
  stream?.close();
  stream = null;
  const address = document.getElementById("live")?.dataset.stream;
  if (!address) return;
  const mine = (stream = new EventSource(address));
  mine.addEventListener("append", (event) => append(JSON.parse(event.data)));
  mine.addEventListener("renew", () => mine === stream && renew(true));
  mine.addEventListener("end", () => {
    mine.close();
    renew(true);
  });
}

function append({ to, kind, text }) {
  const log = document.getElementById(to);
  if (!log) return;
  log.closest("[hidden]")?.removeAttribute("hidden");
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const last = log.lastElementChild;
  const piece = last && last.className === kind ? last : log.appendChild(document.createElement("span"));
  piece.className = kind;
  piece.append(text);
  while (log.textContent.length > LOG_CHARACTERS && log.firstElementChild !== piece) log.firstElementChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

/* A form with data-quiet is sent here, and what came of it is shown by renewing the page. */
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (event.submitter) setTimeout(() => (event.submitter.disabled = true));
  if (!form.matches("[data-quiet]")) return;
  event.preventDefault();
  const fields = new FormData(form, event.submitter);
  const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(fields), redirect: "manual" });
  if (answer.type === "opaqueredirect" || answer.ok) return renew(true);
  location.reload();
});

/* Ctrl or Command with Enter sends what is being written. */
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
    event.target.form?.requestSubmit();
  }
});

const seconds = Number(document.getElementById("live")?.dataset.renew || 0);
if (seconds) setInterval(() => renew(false), seconds * 1000);
document.addEventListener("visibilitychange", () => renew(false));
for (const log of document.querySelectorAll(GROWING)) log.scrollTop = log.scrollHeight;
follow();
