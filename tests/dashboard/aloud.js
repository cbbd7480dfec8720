// What a machine can say about whether a page can be read, heard and used by everybody. Returns what is wrong with it.
() => {
  const problems = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ checkVisibilityCSS: true }) && element.getClientRects().length > 0;
  const tell = (rule, element) => problems.push(`${rule}: ${element.outerHTML.slice(0, 90)}`);
  const textOf = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim();

  function nameOf(element) {
    if (element.getAttribute("aria-labelledby")) return textOf(element.getAttribute("aria-labelledby"));
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
    const images = [...element.querySelectorAll("img")].map((image) => image.alt).join(" ");
    return (element.getAttribute("aria-label") || labels || (element.matches("input, select") ? "" : element.textContent + images)).trim();
  }

  // structure
  if (!document.documentElement.lang) problems.push("the page names no language");
  if (!document.title) problems.push("the page has no title");
  const levels = all("h1, h2, h3, h4").filter(shown).map((heading) => Number(heading.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) problems.push(`one h1 is wanted, got ${levels}`);
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) problems.push(`headings skip from ${levels[i - 1]} to ${level}`); });
  for (const [name, selector] of [["header", "body > header"], ["main", "main"], ["footer", "body > footer"]]) {
    if (all(selector).length !== 1) problems.push(`one ${name} is wanted, got ${all(selector).length}`);
  }
  for (const section of all("section, aside, nav")) if (section.closest("main") && !nameOf2(section)) tell("a region without a name", section);
  function nameOf2(element) { return element.getAttribute("aria-label") || textOf(element.getAttribute("aria-labelledby") ?? "") || element.querySelector("h1"); }
  const regions = all("[role=region]").map((region) => region.getAttribute("aria-label"));
  for (const name of new Set(regions)) if (regions.filter((other) => other === name).length > 1) problems.push(`the region ${name} comes twice`);
  const ids = all("[id]").map((element) => element.id).filter((id) => !id.match(/^gradient|^clip/));
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push(`the id ${id} comes twice`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "for"]) {
    for (const element of all(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) tell(`${attribute} leads nowhere`, element);
    }
  }

  // names and alternatives
  for (const control of all("a, button, input:not([type=hidden]), select, summary")) if (!nameOf(control)) tell("a control without a name", control);
  for (const image of all("img:not([alt])")) tell("a picture without a text", image);
  for (const chart of all("[role=img]")) if ((chart.getAttribute("aria-label") ?? "").length < 20) tell("a chart without words", chart);
  for (const drawing of all("svg")) if (!drawing.closest("[aria-hidden=true], [role=img]")) tell("a drawing that is read out shape by shape", drawing);
  for (const hidden of all("[aria-hidden=true]")) {
    if (hidden.querySelector("a, button, input, select, [tabindex]:not([tabindex='-1'])")) tell("focus can vanish here", hidden);
  }
  for (const table of all("table")) {
    if (!table.querySelector("thead th[scope=col]")) tell("a table without column headers", table);
    if (table.tBodies[0].rows.length && !table.querySelector("tbody th[scope=row]")) tell("a table without row headers", table);
    const width = [...(table.tHead?.rows ?? [])].at(-1)?.cells.length; // above it may stand what several columns share
    for (const row of table.tBodies[0].rows) if (row.cells.length !== width) tell("a row of another width", row);
  }
  for (const element of all("[tabindex]")) if (element.tabIndex > 0) tell("a tab order of its own", element);

  // size and contrast
  if (document.documentElement.scrollWidth > innerWidth) problems.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${innerWidth}`);
  for (const control of all("button, input:not([type=hidden]):not([type=checkbox]), select").filter(shown)) {
    if (control.getBoundingClientRect().height < 24) tell("too small to hit", control);
  }
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    const scale = text.startsWith("color(srgb") ? 255 : 1; // what was mixed of two colours goes from 0 to 1
    return { r: scale * r, g: scale * g, b: scale * b, a };
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((c) => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 });
  function ground(element) {
    const layers = [];
    for (let here = element; here; here = here.parentElement) layers.push(parse(getComputedStyle(here).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(element) || element.closest("script, style, noscript, option") || !shown(element)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    const under = ground(element);
    const colour = over(parse(drawn ? style.fill : style.color), under);
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) tell(`contrast ${ratio.toFixed(2)}`, element);
  }
  return problems;
}
