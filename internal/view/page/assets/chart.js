"use strict";
// One chart: an SVG that zooms by dragging, tells values under the pointer and by keyboard, and has a legend
// that hides lines. Colours come from the style sheet, so that dark, light and print need no redrawing.

const colours = 8;
const dashes = ["", "7 4", "2 3", "9 3 2 3", "12 4", "4 2 1 2"];

function el(name, attrs, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect", "circle", "clipPath"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// markPath is a mark at a point: the shape tells lines apart where colour cannot.
function markPath(shape, x, y, r) {
  const p = (...at) => "M" + at.map(([dx, dy]) => (x + dx * r).toFixed(1) + " " + (y + dy * r).toFixed(1)).join("L") + "Z";
  switch (shape % 6) {
    case 0: return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
    case 1: return p([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]);
    case 2: return p([0, -1.2], [1.1, 0.8], [-1.1, 0.8]);
    case 3: return p([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]);
    case 4: return p([0, 1.2], [1.1, -0.8], [-1.1, -0.8]);
    default: return p([-0.35, -1.1], [0.35, -1.1], [0.35, -0.35], [1.1, -0.35], [1.1, 0.35], [0.35, 0.35],
      [0.35, 1.1], [-0.35, 1.1], [-0.35, 0.35], [-1.1, 0.35], [-1.1, -0.35], [-0.35, -0.35]);
  }
}

// Together is what charts on one time axis share: the stretch shown and the cursor.
class Together {
  constructor(full) { this.members = []; this.x = null; this.full = full; }
  add(member) { this.members.push(member); }
  zoom(x) { this.x = x; for (const m of this.members) m.shareZoom(x); }
  point(x, from) { for (const m of this.members) if (m !== from) m.sharePoint(x); }
}

let charts = 0;

class Chart {
  constructor(host, spec, together, hidden) {
    Object.assign(this, { host, spec, together, id: "chart" + charts++ });
    this.scale = { x: spec.x.scale, y: spec.y.scale };
    this.hidden = new Set(hidden || []);
    this.zoomed = { x: together ? together.x : null, y: null };
    this.pointwise = spec.lines.some((l) => l.labels);
    this.cursor = null;
    this.build();
    if (together) together.add(this);
    this.watch = new ResizeObserver(() => { if (this.host.clientWidth && this.host.clientWidth !== this.width) this.draw(); });
    this.watch.observe(this.host);
    this.draw();
  }

  build() {
    const { spec } = this;
    const button = (text, title, click) => el("button", { type: "button", title, onclick: click }, text);
    this.logs = {};
    const tools = el("div", { class: "tools" });
    for (const d of ["x", "y"]) {
      if (spec[d].scale === "nines" || !this.canLog(d)) continue;
      this.logs[d] = button("log " + d, `Logarithmic ${d} axis`, () => this.toggleLog(d));
      tools.append(this.logs[d]);
    }
    this.resetButton = button("reset zoom", "Show everything again (Esc)", () => this.reset());
    this.resetButton.classList.add("reset");
    this.dataButton = button("data", "Show the numbers as a table", () => this.toggleData());
    this.dataButton.setAttribute("aria-pressed", "false");
    tools.append(this.resetButton, this.dataButton);
    this.svg = el("svg", { tabindex: 0, role: "img", "aria-roledescription": "interactive chart", "aria-keyshortcuts": "ArrowLeft ArrowRight + - Escape" });
    this.tip = el("div", { class: "tip", role: "status", "aria-live": "polite" });
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Series of " + spec.title });
    this.data = el("div", { class: "data scroll", hidden: true });
    this.plot = el("div", { class: "plot" }, this.svg, this.tip);
    this.host.replaceChildren(
      el("figcaption", {}, el("h3", {}, spec.title), tools),
      this.plot, this.legend, el("p", { class: "note" }, this.noteText()), this.data);
    this.buildLegend();
    this.listen();
  }

  // noteText says also what a crowded chart leaves to its legend.
  noteText() {
    const { spec, hidden } = this;
    const left = hidden.size > 0 ? `${spec.lines.length - hidden.size} of ${spec.lines.length} are shown at first: press a name to show or hide it.` : "";
    return [spec.note, left].filter(Boolean).join(" ");
  }

  canLog(d) {
    if (d === "x" && this.together) return false;
    if (this.spec[d].unit === "%" && d === "y") return false;
    return this.spec.lines.some((l) => l[d].some((v) => v > 0)) && (d === "y" || this.spec.lines.every((l) => l.x.every((v) => v > 0)));
  }

  buildLegend() {
    if (this.spec.lines.length < 2 && !this.together) return;
    this.spec.lines.forEach((line, i) => {
      const key = el("svg", { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true", class: "c" + (i % colours) });
      this.drawKey(key, line, i);
      const b = el("button", {
        type: "button", class: "key", "aria-pressed": String(!this.hidden.has(i)), title: "Show or hide " + line.name,
        onclick: () => this.toggleLine(i, b), ondblclick: () => this.only(i),
      }, key, el("span", {}, line.name));
      this.legend.append(b);
    });
  }

  drawKey(key, line, i) {
    if (line.kind === "bars") { key.append(el("rect", { x: 3, y: 1, width: 24, height: 10, class: "outline", "stroke-dasharray": dashes[i % dashes.length] })); return; }
    if (line.kind !== "dots") key.append(el("path", { d: "M1 6H29", class: "line", "stroke-dasharray": dashes[i % dashes.length] }));
    if (line.kind === "marks" || line.kind === "dots") key.append(el("path", { d: markPath(i, 15, 6, 4), class: "mark" }));
  }

  toggleLine(i, b) {
    if (this.hidden.has(i)) this.hidden.delete(i); else this.hidden.add(i);
    b.setAttribute("aria-pressed", String(!this.hidden.has(i)));
    this.draw();
  }

  // only shows one line, or all of them when it is the only one.
  only(i) {
    const alone = this.spec.lines.every((_, k) => k === i || this.hidden.has(k));
    this.spec.lines.forEach((_, k) => { if (alone || k === i) this.hidden.delete(k); else this.hidden.add(k); });
    [...this.legend.children].forEach((b, k) => b.setAttribute("aria-pressed", String(!this.hidden.has(k))));
    this.draw();
  }

  toggleLog(d) {
    this.scale[d] = this.scale[d] === "log" ? "linear" : "log";
    this.zoomed[d] = d === "x" && this.together ? this.together.x : null;
    this.draw();
  }

  toggleData() {
    const show = this.data.hidden;
    this.data.hidden = !show;
    this.dataButton.setAttribute("aria-pressed", String(show));
    if (show && !this.data.firstChild) this.data.append(this.table());
  }

  // table is the chart for those who read numbers: the lines one below the other.
  table() {
    const { spec } = this;
    const unit = (a) => a.name + (a.unit ? ` (${a.unit})` : "");
    const body = el("tbody");
    for (const l of spec.lines) {
      l.y.slice(0, 1000).forEach((y, i) => body.append(el("tr", {},
        el("td", {}, l.name), el("td", {}, (l.labels && l.labels[i]) || ""), el("td", { class: "n" }, full(l.x[i])), el("td", { class: "n" }, full(y)))));
    }
    return el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Series"), el("th", {}, this.pointwise ? "Run" : ""),
      el("th", { class: "n" }, unit(spec.x)), el("th", { class: "n" }, unit(spec.y)))), body);
  }

  visible() { return this.spec.lines.map((line, i) => ({ line, i })).filter(({ i }) => !this.hidden.has(i)); }

  // extent is the range of values of the lines shown; of y only where x is within the zoom.
  extent(d) {
    if (d === "x" && this.together && this.together.full) return this.together.full;
    let low = Infinity, high = -Infinity;
    const takes = transforms[this.scale[d]].takes;
    const window = d === "y" ? this.zoomed.x : null;
    for (const { line } of this.visible()) {
      const xs = line.x, vs = line[d];
      for (let i = 0; i < vs.length; i++) {
        const v = vs[i];
        if (v === null || !takes(v)) continue;
        if (window) {
          const next = line.kind === "bars" || line.kind === "steps" ? xs[Math.min(i + 1, xs.length - 1)] : xs[i];
          if (next < window[0] || xs[i] > window[1]) continue;
        }
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
    return this.padded(d, low, high);
  }

  padded(d, low, high) {
    const kind = this.scale[d];
    if (low > high) return kind === "log" ? [1, 10] : [0, 1];
    if (kind === "nines") return [Math.min(low, 0), Math.max(high, 90)];
    if (kind === "log") {
      if (d === "x" && !this.pointwise && high > low) return [low, high];
      const pad = Math.max(1.05, (high / low) ** 0.04);
      return [low / pad, high * pad];
    }
    const fromZero = this.spec[d].zero && low >= 0 && !(d === "y" && this.scale.y === "log");
    if (d === "x" && !this.pointwise) return [fromZero ? Math.min(0, low) : low, high > low ? high : low + 1];
    if (this.spec[d].unit === "%" && fromZero && high <= 100 && high > 50) return [0, 100];
    const pad = (high - (fromZero ? 0 : low) || Math.abs(high) || 1) * 0.06;
    return [fromZero ? 0 : low - pad, high + pad];
  }

  draw() {
    const width = this.host.clientWidth - 2 || 640;
    this.width = this.host.clientWidth;
    const height = Math.round(Math.max(190, Math.min(this.spec.tall ? 420 : this.together ? 205 : 300, width * 0.55)));
    const [xLow, xHigh] = this.zoomed.x || this.extent("x");
    const [yLow, yHigh] = this.zoomed.y || this.extent("y");
    const yUnit = axisUnit(this.spec.y, yHigh), xUnit = axisUnit(this.spec.x, xHigh);
    const box = { top: 26, bottom: height - 38, right: width - 14 };
    const y = makeScale(this.scale.y, yLow, yHigh, box.bottom, box.top);
    const yTicks = ticksOf(y, Math.round((box.bottom - box.top) / 36));
    const widest = Math.max(...yTicks.map((t) => short(t * yUnit.by).length), 2);
    box.left = this.together ? 58 : 16 + 7 * widest;
    const x = makeScale(this.scale.x, xLow, xHigh, box.left, box.right);
    Object.assign(this, { box, x, y, height, units: { x: xUnit, y: yUnit } });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(this.grid(yTicks), this.lines(), this.overlay());
    this.svg.setAttribute("aria-label", this.describe(xLow, xHigh, yLow, yHigh));
    this.plot.classList.toggle("zoomed", !!(this.zoomed.x || this.zoomed.y));
    for (const d of Object.keys(this.logs)) this.logs[d].setAttribute("aria-pressed", String(this.scale[d] === "log"));
    this.resetButton.hidden = !(this.zoomed.x || this.zoomed.y);
    this.leave();
  }

  describe(xLow, xHigh, yLow, yHigh) {
    const { spec } = this;
    return `${spec.title}. ${this.visible().length} series. ${spec.x.name} from ${full(xLow, spec.x.unit)} to ${full(xHigh, spec.x.unit)}, ` +
      `${spec.y.name} from ${full(yLow, spec.y.unit)} to ${full(yHigh, spec.y.unit)}. Arrow keys read values, plus and minus zoom, Escape resets.`;
  }

  grid(yTicks) {
    const { box, x, y, spec, units } = this;
    const g = el("g", { class: "grid" });
    for (const t of yTicks) {
      const at = y.px(t);
      g.append(el("line", { x1: box.left, x2: box.right, y1: at, y2: at }),
        el("text", { x: box.left - 8, y: at + 4, "text-anchor": "end" }, short(t * units.y.by)));
    }
    let last = -Infinity;
    for (const t of ticksOf(x, Math.max(2, Math.round((box.right - box.left) / 60)))) {
      const at = x.px(t), text = x.kind === "nines" ? "P" + t : short(t * units.x.by);
      if (at - last < text.length * 6.5 + 10) continue;
      last = at;
      g.append(el("line", { class: "tick", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 5 }),
        el("text", { x: Math.min(at, box.right - 3 * text.length + 8), y: box.bottom + 18, "text-anchor": "middle" }, text));
    }
    g.append(el("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    const wording = (a, u, kind) => (a.name === u.unit ? a.name : a.name + (u.unit ? `, ${u.unit}` : "")) + (kind === "log" ? " (log)" : "");
    const nameY = this.together ? units.y.unit + (this.scale.y === "log" ? " (log)" : "") : wording(spec.y, units.y, this.scale.y);
    g.append(el("text", { class: "name", x: 2, y: 13 }, nameY));
    g.append(el("text", { class: "name", x: box.right, y: box.bottom + 33, "text-anchor": "end" }, wording(spec.x, units.x, this.scale.x)));
    return g;
  }

  lines() {
    const { box } = this;
    const clip = this.id + "-clip";
    const g = el("g", { "clip-path": `url(#${clip})` });
    g.append(el("clipPath", { id: clip }, el("rect", { x: box.left - 1, y: box.top - 6, width: Math.max(0, box.right - box.left + 7), height: box.bottom - box.top + 7 })));
    const bars = this.visible().filter(({ line }) => line.kind === "bars").length;
    for (const { line, i } of this.visible()) {
      const one = el("g", { class: "series c" + (i % colours), "data-name": line.name });
      if (line.kind === "bars") one.append(el("path", { d: this.barPath(line, bars > 1), class: bars > 1 ? "outline" : "bar", "stroke-dasharray": bars > 1 ? dashes[i % dashes.length] : null }));
      else if (line.kind !== "dots") one.append(el("path", { d: this.path(line), class: "line", "stroke-dasharray": dashes[i % dashes.length] }));
      if (line.kind === "marks" || line.kind === "dots" || line.x.length === 1) one.append(this.marks(line, i));
      g.append(one);
    }
    return g;
  }

  path(line) {
    const { x, y } = this;
    let d = "", pen = false, before = null;
    const xs = line.join_x || line.x, ys = line.join_y || line.y;
    for (let i = 0; i < xs.length; i++) {
      const vx = xs[i], vy = ys[i];
      if (vy === null || !x.takes(vx)) { pen = false; continue; }
      const px = x.px(vx).toFixed(1);
      const py = (y.takes(vy) ? y.px(vy) : this.box.bottom + 3).toFixed(1);
      if (pen && line.kind === "steps" && before !== null) d += "H" + px + "V" + py;
      else d += (pen ? "L" : "M") + px + " " + py;
      pen = true;
      before = py;
    }
    return d;
  }

  // barPath is filled bars for one line and their common outline for several.
  barPath(line, outline) {
    const { x, y, box } = this;
    let d = outline ? `M${x.px(line.x[0]).toFixed(1)} ${box.bottom}` : "";
    for (let i = 0; i < line.y.length; i++) {
      const a = x.px(line.x[i]), b = x.px(line.x[i + 1]);
      const top = y.takes(line.y[i]) ? Math.min(box.bottom, y.px(line.y[i])) : box.bottom;
      if (outline) d += `V${top.toFixed(1)}H${b.toFixed(1)}`;
      else if (top < box.bottom) d += `M${(a + 0.5).toFixed(1)} ${box.bottom}V${top.toFixed(1)}H${Math.max(a + 1, b - 0.5).toFixed(1)}V${box.bottom}Z`;
    }
    return outline ? d + `V${box.bottom}` : d;
  }

  marks(line, i) {
    const { x, y } = this;
    const r = line.labels ? 4 : line.x.length > 60 ? 1.6 : 2.6;
    let d = "";
    for (let k = 0; k < line.x.length; k++) if (line.y[k] !== null && x.takes(line.x[k]) && y.takes(line.y[k])) d += markPath(i, x.px(line.x[k]), y.px(line.y[k]), r);
    return el("path", { d, class: "mark" });
  }

  overlay() {
    this.hair = el("line", { class: "hair", y1: this.box.top, y2: this.box.bottom, visibility: "hidden" });
    this.spots = el("g", { class: "spots" });
    this.band = el("rect", { class: "band", visibility: "hidden" });
    return el("g", {}, this.hair, this.spots, this.band);
  }
}
