"use strict";
// The page: draws what comes into view, sorts tables, keeps the choices.

const data = JSON.parse(document.getElementById("data").textContent);
for (const chart of Object.values(data.charts)) {
  for (const line of chart.lines) if (line.labels) line.labels = line.labels.map((k) => data.names[k]);
}
const drawn = new Map(); // host -> what is drawn in it
const axes = new Map(); // run -> the time axis its charts share

function axisOf(run) {
  if (!axes.has(run)) axes.set(run, new Together([0, data.runs[run].duration_s || 1]));
  return axes.get(run);
}

// keyOf fills the choices of a section into the name of a chart.
function keyOf(host) {
  const section = host.closest("section");
  return host.dataset.key.replace(/\{(\w+)\}/g, (_, name) => section.querySelector(`[data-pick="${name}"]`).value);
}

function draw(host) {
  const run = host.dataset.run;
  const together = run === undefined ? null : axisOf(run);
  if (host.dataset.waterfall !== undefined) {
    if (!drawn.has(host)) drawn.set(host, new Waterfall(host, data.runs[run].waterfall, together));
    return;
  }
  const key = keyOf(host), now = drawn.get(host);
  if (now && now.shows === key) return;
  const spec = data.charts[key];
  if (now) now.watch.disconnect();
  host.hidden = !spec;
  if (!spec) { drawn.delete(host); return; }
  const chart = new Chart(host, spec, together, now && now.spec.lines.length === spec.lines.length ? now.hidden : first(spec));
  chart.shows = key;
  drawn.set(host, chart);
}

// first hides all but some lines of a crowded chart, evenly spread; the legend has the others.
function first(spec) {
  const n = spec.lines.length, most = spec.lines.some((l) => l.kind === "bars") ? 3 : 8;
  if (n <= most) return [];
  const shown = new Set(Array.from({ length: most }, (_, k) => Math.round((k * (n - 1)) / (most - 1))));
  return spec.lines.map((_, i) => i).filter((i) => !shown.has(i));
}

const seen = new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting) { seen.unobserve(e.target); draw(e.target); }
}, { rootMargin: "400px" });

for (const host of document.querySelectorAll("figure[data-key], figure[data-waterfall]")) seen.observe(host);

const drawAll = () => document.querySelectorAll("figure[data-key], figure[data-waterfall]").forEach((host) => {
  if (host.closest("[hidden]") === null || host.hidden) draw(host);
});
addEventListener("beforeprint", () => {
  drawAll();
  for (const d of document.querySelectorAll("details")) d.open = true;
});

for (const pick of document.querySelectorAll("select[data-pick]")) {
  pick.addEventListener("change", () => pick.closest("section").querySelectorAll("figure[data-key]").forEach(draw));
}

// Of several tables of one section, the one that is chosen.
for (const pick of document.querySelectorAll("select[data-table]")) {
  const tables = pick.closest("section").querySelectorAll(".choice");
  const show = () => tables.forEach((t, i) => { t.hidden = String(i) !== pick.value; });
  pick.addEventListener("change", show);
  show();
}

// The run whose details are shown.
const chooser = document.getElementById("run");
function choose(run) {
  for (const a of document.querySelectorAll("article[data-run]")) a.hidden = a.dataset.run !== String(run);
}
if (chooser) {
  chooser.addEventListener("change", () => choose(chooser.value));
  for (const link of document.querySelectorAll("a[data-run]")) {
    link.addEventListener("click", () => { chooser.value = link.dataset.run; choose(link.dataset.run); });
  }
  choose(chooser.value);
}

// Tables sort by the column whose header is pressed; rows without a value stay last.
function sortBy(table, column, header) {
  const down = header.getAttribute("aria-sort") === "ascending";
  for (const th of table.querySelectorAll("th[aria-sort]")) th.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent.trim();
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const rows = [...table.tBodies[0].rows].map((row, i) => ({ row, v: value(row), i }));
  const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  rows.sort((a, b) => {
    if (a.v === null || b.v === null) return (a.v === null) - (b.v === null) || a.i - b.i;
    return (down ? -1 : 1) * order(a.v, b.v) || a.i - b.i;
  });
  table.tBodies[0].append(...rows.map((r) => r.row));
}
for (const table of document.querySelectorAll("table.sort")) {
  [...table.tHead.rows[table.tHead.rows.length - 1].cells].forEach((th, column) => {
    const b = el("button", { type: "button", title: "Sort by this column", onclick: () => sortBy(table, column, th) }, ...th.childNodes);
    th.replaceChildren(b);
  });
}

// The rows of a table that have all the words typed above it.
for (const bar of document.querySelectorAll("[data-filter]")) {
  const rows = [...bar.closest("section").querySelectorAll("tbody tr")];
  const [input, status] = [bar.querySelector("input"), bar.querySelector("[role=status]")];
  bar.hidden = rows.length < 4;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = [...row.cells].map((c) => c.textContent + " " + c.title).join(" ").toLowerCase();
      row.hidden = !words.every((w) => text.includes(w));
      if (!row.hidden) shown++;
    }
    status.textContent = words.length ? `${shown} of ${rows.length}` : "";
  });
}

// Where a table goes on beyond its edge, a shadow says so.
function cue(box) {
  const left = box.scrollLeft, right = box.scrollWidth - box.clientWidth - left;
  box.classList.toggle("more-left", left > 2);
  box.classList.toggle("more-right", right > 2);
}
const sized = new ResizeObserver((entries) => entries.forEach((e) => cue(e.target)));
for (const box of document.querySelectorAll(".scroll")) {
  box.addEventListener("scroll", () => cue(box), { passive: true });
  sized.observe(box);
}

// The theme follows the system until it is chosen. A page opened from a file may have nowhere to keep the choice.
const theme = document.getElementById("theme");
const keep = { get: () => { try { return localStorage.getItem("spate-theme"); } catch { return null; } }, set: (v) => { try { localStorage.setItem("spate-theme", v); } catch { /* not kept */ } } };
const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  theme.textContent = dark() ? "Light" : "Dark";
  document.dispatchEvent(new Event("themechange"));
}
theme.addEventListener("click", () => { setTheme(dark() ? "light" : "dark"); keep.set(document.documentElement.dataset.theme); });
setTheme(keep.get());
theme.hidden = false;

// Printing is on white, whatever the screen is.
let before = null;
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme || ""; setTheme("light"); });
addEventListener("afterprint", () => { if (before === "") delete document.documentElement.dataset.theme; setTheme(before); });
document.documentElement.classList.add("ready");
