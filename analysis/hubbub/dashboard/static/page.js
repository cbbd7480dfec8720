// Draws the charts and renews the page when the server says that there is news. Everything else works without it.

const CHART_COLOURS = {
  "#0072B2": "--chart-accent", "#D55E00": "--chart-alarm", "#767676": "--quiet", "#222222": "--text",
  "#E6E6E6": "--chart-line", "#B8C4CC": "--chart-faint",
};
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new WeakMap();
let vega;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The specification is the command line's; only its colours and its width become the page's.
function themed(text, width) {
  const spec = JSON.parse(text, (key, value) => {
    const isColour = /[cC]olor$|^[0-9]+$/.test(key) && typeof value === "string"; // a value may be called #222222, too
    if (isColour && value in CHART_COLOURS) return colour(CHART_COLOURS[value]);
    return key === "labelLimit" ? Math.min(value, width * 0.34) : value;
  });
  // Vega-Lite cannot fit the width of a chart whose height grows by steps.
  const rows = (spec.data ?? spec.layer[0].data).values;
  if (spec.height.step) spec.height = spec.height.step * new Set(rows.map((row) => row.value)).size;
  spec.width = width;
  spec.autosize = { type: "fit-x", contains: "padding" };
  return spec;
}

async function draw(figure) {
  const canvas = figure.querySelector(".canvas");
  const text = figure.querySelector(".spec").textContent;
  const width = canvas.clientWidth;
  const key = `${width} ${dark.matches} ${text}`;
  if (!width || drawn.get(figure) === key) return;
  drawn.set(figure, key);
  vega ??= import(new URL(`/static/vega.js${new URL(import.meta.url).search}`, location.origin));
  await vega;
  const [text_, quiet] = [colour("--text"), colour("--quiet")];
  const font = getComputedStyle(document.body).fontFamily;
  const chart = await window.vegaEmbed(canvas.querySelector(".plot"), themed(text, width), {
    ast: true, actions: false, defaultStyle: false, tooltip: false, renderer: "svg",
    config: {
      background: "transparent", font,
      axis: { labelColor: quiet, titleColor: quiet, titleFontWeight: "normal", tickColor: colour("--line") },
      legend: { labelColor: text_, labelFontSize: 12 },
    },
  });
  canvas.setAttribute("data-drawn", "");
  (figure.chart ?? { finalize() {} }).finalize();
  figure.chart = chart;
}

function drawAll() {
  for (const figure of document.querySelectorAll("figure.chart")) {
    draw(figure).catch(() => figure.querySelector(".plot").replaceChildren("The chart could not be drawn; the table has its numbers."));
  }
}

// Replaces what the server marked as live, if it differs, and keeps what the reader has opened and focused.
function swap(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = old.id && fresh.getElementById(old.id);
    if (!now || old.parentElement.closest("[data-live]")) continue;
    if (now.outerHTML === old.served) continue;
    const served = now.outerHTML;
    const open = [...old.querySelectorAll("details[open]")].map((details) => details.id);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const figures = Object.fromEntries([...old.querySelectorAll("figure.chart")].map((figure) => [figure.id, figure]));
    for (const figure of now.querySelectorAll("figure.chart")) {
      const known = figures[figure.id];
      if (known && known.querySelector(".spec").textContent === figure.querySelector(".spec").textContent) figure.replaceWith(known);
    }
    for (const id of open) if (id) now.querySelector(`#${id}`)?.setAttribute("open", "");
    old.replaceWith(now);
    now.served = served;
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
    drawAll();
  } catch {
    lost();
  } finally {
    busy = false;
    if (again) { again = false; renew(); } else if (document.body.hasAttribute("data-pending")) setTimeout(renew, 1000);
  }
}

function lost() {
  const words = document.createElement("p");
  words.textContent = "The dashboard itself does not answer. These are the last numbers that came; the page goes on by itself.";
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

for (const live of document.querySelectorAll("[data-live]")) live.served = live.outerHTML;
drawAll();
if (document.body.hasAttribute("data-pending")) setTimeout(renew, 1000);
dark.addEventListener("change", drawAll);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 150); });
