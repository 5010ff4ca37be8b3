"use strict";
// Every request as a bar on the time axis of its run. It is drawn on a canvas: a run may have a hundred thousand.

// unpack reads columns of variable-length numbers out of base64 text.
function unpack(text) {
  const raw = atob(text);
  const out = [];
  let value = 0, shift = 0;
  for (let i = 0; i < raw.length; i++) {
    const b = raw.charCodeAt(i);
    value += (b & 127) * 2 ** shift;
    if (b & 128) { shift += 7; continue; }
    out.push(value % 2 ? -(value + 1) / 2 : value / 2); // zigzag
    value = shift = 0;
  }
  return out;
}

// bars turns the packed columns into times in seconds.
function bars(packed) {
  const at = (name) => Float64Array.from(unpack(packed[name]));
  const b = { id: at("id"), wait: at("wait"), sent: at("sent"), first: at("first"), end: at("end"), in: at("in"), out: at("out"), fate: at("fate") };
  const s = packed.unit_s;
  for (let i = 0; i < b.sent.length; i++) {
    if (i > 0) { b.sent[i] += b.sent[i - 1]; b.id[i] += b.id[i - 1]; }
  }
  for (let i = 0; i < b.sent.length; i++) {
    b.sent[i] *= s;
    b.wait[i] = b.sent[i] - b.wait[i] * s;
    b.first[i] = b.sent[i] + b.first[i] * s;
    b.end[i] = b.first[i] + b.end[i] * s;
  }
  return b;
}

const fates = ["ok", "failed", "dropped", "canceled"];
const phases = [["wait", "due, not yet sent", "c6"], ["first", "waiting for the first token", "c4"], ["rest", "receiving tokens", "c0"], ["bad", "not delivered", "c1"]];

class Waterfall {
  constructor(host, packed, together) {
    Object.assign(this, { host, packed, together });
    this.bars = bars(packed);
    this.n = this.bars.sent.length;
    this.rows = [0, this.n];
    this.off = new Set();
    this.build();
    if (together) together.add(this);
    this.watch = new ResizeObserver(() => { if (this.host.clientWidth && this.host.clientWidth !== this.width) this.draw(); });
    this.watch.observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.addEventListener("themechange", () => this.draw());
    this.draw();
  }

  build() {
    const button = (text, title, click) => el("button", { type: "button", title, onclick: click }, text);
    this.resetButton = button("reset zoom", "Show everything again (Esc)", () => this.reset());
    this.resetButton.classList.add("reset");
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-roledescription": "interactive chart", "aria-keyshortcuts": "ArrowUp ArrowDown Escape" });
    this.tip = el("div", { class: "tip", role: "status", "aria-live": "polite" });
    this.band = el("div", { class: "band", hidden: true });
    this.plot = el("div", { class: "plot" }, this.canvas, this.band, this.tip);
    this.legend = el("div", { class: "legend", role: "group", "aria-label": "Parts of a request" });
    for (const [key, name, colour] of phases) {
      const b = el("button", { type: "button", class: "key", "aria-pressed": "true", onclick: () => this.toggle(key, b) }, el("i", { class: colour }), el("span", {}, name));
      this.legend.append(b);
    }
    this.note = el("p", { class: "note" });
    this.host.replaceChildren(el("figcaption", {}, el("h3", {}, "Requests, in the order they were sent"), el("div", { class: "tools" }, this.resetButton)), this.plot, this.legend, this.note);
    this.listen();
  }

  toggle(key, b) {
    if (this.off.has(key)) this.off.delete(key); else this.off.add(key);
    b.setAttribute("aria-pressed", String(!this.off.has(key)));
    this.draw();
  }

  time() { return (this.together && this.together.x) || (this.together && this.together.full) || [0, this.bars.end.reduce((a, b) => Math.max(a, b), 1e-3)]; }

  draw() {
    const shown = this.rows[1] - this.rows[0];
    const width = this.host.clientWidth - 2 || 640, height = Math.max(140, Math.min(520, 60 + shown * 6));
    this.width = this.host.clientWidth;
    const ratio = Math.max(2, Math.min(3, window.devicePixelRatio || 1));
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.aspectRatio = `${width} / ${height}`;
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    this.box = { left: 58, right: width - 14, top: 8, bottom: height - 38 };
    this.x = makeScale("linear", ...this.time(), this.box.left, this.box.right);
    this.y = makeScale("linear", ...this.rows, this.box.top, this.box.bottom);
    this.colours();
    this.axes(g, height);
    g.save();
    g.beginPath();
    g.rect(this.box.left, this.box.top, this.box.right - this.box.left, this.box.bottom - this.box.top);
    g.clip();
    this.drawBars(g);
    g.restore();
    this.resetButton.hidden = !this.zoomed();
    const per = shown / Math.max(1, this.box.bottom - this.box.top);
    const parts = [];
    if (this.packed.total > this.n) parts.push(`${this.n.toLocaleString("en-US")} of ${this.packed.total.toLocaleString("en-US")} requests are kept: of neighbours the one that failed or took longest.`);
    if (per > 1) parts.push(`Each line stands for about ${Math.ceil(per)} requests and shows the one that failed or took longest; drag to zoom in.`);
    this.note.textContent = parts.join(" ");
    this.canvas.setAttribute("aria-label", `Timeline of ${this.n} requests. Arrow keys walk through requests, Escape resets the zoom.`);
    this.leave();
  }

  zoomed() { return this.rows[0] > 0 || this.rows[1] < this.n || !!(this.together && this.together.x); }

  // colours are read from the style sheet, which knows the theme.
  colours() {
    const probe = el("span");
    this.host.append(probe);
    this.ink = {};
    for (const name of ["ink", "muted", "line", "s0", "s1", "s4", "s6"]) {
      probe.style.color = `var(--${name})`;
      this.ink[name] = getComputedStyle(probe).color;
    }
    this.font = getComputedStyle(this.host).fontFamily;
    probe.remove();
  }

  axes(g, height) {
    const { box, ink } = this;
    g.font = "12px " + this.font;
    g.fillStyle = ink.muted;
    g.strokeStyle = ink.line;
    g.textAlign = "right";
    for (const t of linearTicks(...this.rows, Math.round((box.bottom - box.top) / 50))) {
      if (t === Math.floor(t) && t < this.rows[1]) g.fillText(short(t), box.left - 8, this.y.px(t) + 9);
    }
    g.textAlign = "center";
    const unit = axisUnit({ unit: "s" }, this.x.high);
    for (const t of ticksOf(this.x, Math.max(2, Math.round((box.right - box.left) / 60)))) {
      const at = Math.round(this.x.px(t)) + 0.5;
      g.beginPath();
      g.moveTo(at, box.top);
      g.lineTo(at, box.bottom + 5);
      g.stroke();
      g.fillText(short(t * unit.by), Math.min(at, box.right - 4), box.bottom + 18);
    }
    g.textAlign = "right";
    g.fillStyle = ink.ink;
    g.fillText("Time since the start, " + unit.unit, box.right, height - 4);
  }

  drawBars(g) {
    const { x, y, bars: b, ink, off } = this;
    const tall = Math.max(1, Math.abs(y.px(1) - y.px(0)));
    const thick = tall > 3 ? tall - 1 : tall;
    const rect = (colour, from, to, at) => {
      if (to <= from) return;
      const a = x.px(from);
      g.fillStyle = colour;
      g.fillRect(a, at, Math.max(0.7, x.px(to) - a), thick);
    };
    this.drawn = [];
    for (const i of this.pick()) {
      const at = y.px(i), bad = b.fate[i] !== 0;
      if (b.end[i] < x.low || b.wait[i] > x.high) continue;
      if (!off.has("wait")) rect(ink.s6, b.wait[i], b.sent[i], at);
      if (bad) { if (!off.has("bad")) rect(ink.s1, b.sent[i], Math.max(b.end[i], b.sent[i] + (x.high - x.low) / 400), at); continue; }
      if (!off.has("first")) rect(ink.s4, b.sent[i], b.first[i], at);
      if (!off.has("rest")) rect(ink.s0, b.first[i], b.end[i], at);
    }
  }

  // pick chooses one request for each line of pixels: one that failed, else the one that took longest.
  pick() {
    const [from, to] = this.rows, b = this.bars, out = [];
    const lines = Math.max(1, Math.floor(this.box.bottom - this.box.top));
    const per = Math.max(1, (to - from) / lines);
    for (let start = from; start < to; start += per) {
      let best = -1, weight = -1;
      for (let i = Math.floor(start); i < Math.min(to, Math.floor(start + per)); i++) {
        const w = (b.fate[i] !== 0 ? 1e9 : 0) + b.end[i] - b.sent[i];
        if (w > weight) { weight = w; best = i; }
      }
      if (best >= 0) out.push(best);
    }
    this.picked = out;
    return out;
  }

  listen() {
    const c = this.canvas;
    const at = (e) => {
      const r = c.getBoundingClientRect(), k = (this.width - 2) / (r.width || 1);
      return [(e.clientX - r.left) * k, (e.clientY - r.top) * k];
    };
    c.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      this.drag = at(e);
      try { c.setPointerCapture(e.pointerId); } catch { /* the pointer is gone already */ }
    });
    c.addEventListener("pointermove", (e) => (this.drag ? this.mark(this.drag, at(e)) : this.hover(...at(e))));
    c.addEventListener("pointerup", (e) => this.release(at(e)));
    c.addEventListener("pointercancel", () => { this.drag = null; this.band.hidden = true; });
    c.addEventListener("pointerleave", (e) => { if (!this.drag && e.pointerType !== "touch") this.leave(true); });
    document.addEventListener("pointerdown", (e) => { if (e.target !== c) this.leave(); });
    c.addEventListener("dblclick", () => this.reset());
    c.addEventListener("blur", () => this.leave(true));
    c.addEventListener("keydown", (e) => this.key(e));
  }

  mark(a, b) {
    this.leave();
    this.band.hidden = false;
    const k = this.canvas.clientWidth / (this.width - 2 || 1);
    const px = (v) => v * k + "px";
    Object.assign(this.band.style, { left: px(Math.min(a[0], b[0])), top: px(Math.min(a[1], b[1])), width: px(Math.abs(a[0] - b[0])), height: px(Math.abs(a[1] - b[1])) });
  }

  release(to) {
    const from = this.drag;
    this.drag = null;
    this.band.hidden = true;
    if (!from) return;
    const clamp = (v, s) => Math.max(s.low, Math.min(s.high, v));
    const sorted = (a, b) => (a < b ? [a, b] : [b, a]);
    const wide = Math.abs(to[0] - from[0]) >= 8, high = Math.abs(to[1] - from[1]) >= 12;
    if (high) {
      const [a, b] = sorted(clamp(this.y.value(from[1]), this.y), clamp(this.y.value(to[1]), this.y));
      this.rows = [Math.floor(a), Math.max(Math.floor(a) + 1, Math.ceil(b))];
    }
    if (wide && this.together) this.together.zoom(sorted(clamp(this.x.value(from[0]), this.x), clamp(this.x.value(to[0]), this.x)));
    else if (high) this.draw();
    else this.hover(...to);
  }

  reset() {
    this.rows = [0, this.n];
    if (this.together) this.together.zoom(null); else this.draw();
  }

  shareZoom(x) {
    if (x === null) this.rows = [0, this.n];
    this.draw();
  }

  sharePoint(x) { if (x === null) this.leave(); }

  hover(px, py) {
    const { box } = this;
    if (px < box.left || px > box.right || py < box.top || py > box.bottom || this.n === 0) { this.leave(true); return; }
    this.show(this.picked[nearest(this.picked, this.y.value(py) - 0.5)], px);
    if (this.together) this.together.point(this.x.value(px), this);
  }

  show(i, px) {
    const b = this.bars, { tip } = this;
    if (i === undefined) return;
    this.at = i;
    const row = (name, value) => el("div", {}, el("span", {}, name), el("b", {}, value));
    const ms = (from, to) => full((to - from) * 1000, "ms");
    tip.replaceChildren(el("strong", {}, "Request " + b.id[i]), row("fate", fates[b.fate[i]] || "unknown"), row("sent at", full(b.sent[i], "s")),
      row("waited in the client", ms(b.wait[i], b.sent[i])), row("TTFT", b.fate[i] ? "none" : ms(b.sent[i], b.first[i])), row("until its end", ms(b.sent[i], b.end[i])),
      row("tokens in, out", `${full(b.in[i])}, ${full(b.out[i])}`));
    tip.classList.add("on");
    const k = this.canvas.clientWidth / (this.width - 2 || 1);
    const left = px > (this.box.left + this.box.right) / 2 ? px * k - tip.offsetWidth - 14 : px * k + 14;
    tip.style.left = Math.max(0, Math.min(left, this.plot.clientWidth - tip.offsetWidth)) + "px";
    tip.style.top = Math.max(0, Math.min(this.y.px(i) * k, this.canvas.clientHeight - tip.offsetHeight)) + "px";
  }

  leave(share) {
    this.tip.classList.remove("on");
    this.tip.replaceChildren();
    if (share && this.together) this.together.point(null, this);
  }

  key(e) {
    if (e.key === "Escape") { this.reset(); return; }
    const by = { ArrowUp: -1, ArrowDown: 1 }[e.key];
    if (!by || !this.picked.length) return;
    e.preventDefault();
    const now = this.at === undefined ? -1 : nearest(this.picked, this.at);
    const i = this.picked[Math.max(0, Math.min(this.picked.length - 1, now + by))];
    this.show(i, Math.max(this.box.left, Math.min(this.box.right, this.x.px(this.bars.sent[i]))));
  }
}
