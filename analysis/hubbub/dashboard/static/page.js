// Renews the page when the server says that there is news. Everything else works without it.

const liveIn = (page) => [...page.querySelectorAll("[data-live]")];

// Replaces what the server marked as live, if it differs, and keeps what the reader has opened and focused. A page that
// has other parts than before (numbers have come) is replaced as a whole.
function swap(fresh) {
  const same = liveIn(fresh).map((live) => live.id).join() === liveIn(document).map((live) => live.id).join();
  for (const old of same ? liveIn(document) : ["state", "main"].map((id) => document.getElementById(id))) {
    const now = old.id && fresh.getElementById(old.id);
    if (!now || old.parentElement.closest("[data-live]")) continue;
    if (now.outerHTML === old.served) continue;
    for (const live of [now, ...liveIn(now)]) live.served = live.outerHTML;
    const open = [...old.querySelectorAll("details[open]")].map((details) => details.id);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    for (const id of open) if (id) now.querySelector(`#${id}`)?.setAttribute("open", "");
    old.replaceWith(now);
    const again = focused && (focused.id ? document.getElementById(focused.id) : now.querySelector(`a[href="${CSS.escape(focused.getAttribute("href") ?? "")}"]`));
    again?.focus({ preventScroll: true });
  }
  document.body.toggleAttribute("data-pending", fresh.body.hasAttribute("data-pending"));
}

let busy = false;
let again = false;

async function renew() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.reload(); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (fresh.getElementById("whole") && !document.getElementById("whole") || fresh.getElementById("result") && !document.getElementById("result")) {
      location.reload();
      return;
    }
    swap(fresh);
  } catch {
    lost();
  } finally {
    busy = false;
    if (again) { again = false; renew(); } else if (document.body.hasAttribute("data-pending")) setTimeout(renew, 1000);
  }
}

function lost() {
  const words = document.createElement("p");
  words.textContent = "The dashboard itself does not answer. Showing the last data received; retrying automatically.";
  const banner = document.getElementById("banner");
  banner.replaceChildren(words);
  banner.served = "";
  const state = document.getElementById("state");
  state.className = "state broken";
  state.served = "";
}

let version = document.body.dataset.version; // what has changed since this page was made is news, too
const events = new EventSource("/events");
events.onmessage = (event) => {
  if (event.data !== version || document.querySelector("#state.broken")) renew();
  version = event.data;
};
events.onerror = () => {
  lost();
  if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000); // refused: to sign in anew
};
events.addEventListener("closed", () => location.reload());

for (const live of liveIn(document)) live.served = live.outerHTML;
if (document.body.hasAttribute("data-pending")) setTimeout(renew, 1000);
