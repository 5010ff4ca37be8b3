"use strict";
// What pointers and keys do to a chart: reading values and zooming.

Object.assign(Chart.prototype, {
  listen() {
    const { svg } = this;
    svg.addEventListener("pointerdown", (e) => this.grab(e));
    svg.addEventListener("pointermove", (e) => (this.drag ? this.pull(e) : this.hover(e)));
    svg.addEventListener("pointerup", (e) => this.release(e));
    svg.addEventListener("pointercancel", () => { this.drag = null; this.band.setAttribute("visibility", "hidden"); });
    svg.addEventListener("pointerleave", (e) => { if (!this.drag && e.pointerType !== "touch") this.leave(true); });
    document.addEventListener("pointerdown", (e) => { if (this.cursor !== null && !svg.contains(e.target)) this.leave(true); }); // a finger does not leave
    svg.addEventListener("dblclick", () => this.reset());
    svg.addEventListener("keydown", (e) => this.key(e));
    svg.addEventListener("blur", () => this.leave(true));
  },

  // at is where an event is on the drawing, whatever size it is shown in.
  at(e) {
    const r = this.svg.getBoundingClientRect();
    const k = (this.width - 2) / (r.width || 1);
    return [(e.clientX - r.left) * k, (e.clientY - r.top) * k];
  },

  grab(e) {
    if (e.button !== 0) return;
    const [x, y] = this.at(e);
    this.drag = { x, y, toX: x, toY: y };
    try { this.svg.setPointerCapture(e.pointerId); } catch { /* the pointer is gone already */ }
  },

  pull(e) {
    const { drag, box, band } = this;
    [drag.toX, drag.toY] = this.at(e);
    const span = this.span();
    if (!span) return;
    this.leave(true);
    band.setAttribute("visibility", "visible");
    const [x0, x1] = span.x || [box.left, box.right], [y0, y1] = span.y || [box.top, box.bottom];
    for (const [k, v] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) band.setAttribute(k, v);
  },

  // span is what a drag has marked: a stretch of one axis, or a box where it is long in both directions.
  span() {
    const { drag, box } = this;
    const clamp = (v, a, b) => Math.max(a, Math.min(b, v));
    const xs = [drag.x, drag.toX].map((v) => clamp(v, box.left, box.right)).sort((a, b) => a - b);
    const ys = [drag.y, drag.toY].map((v) => clamp(v, box.top, box.bottom)).sort((a, b) => a - b);
    const wide = xs[1] - xs[0] >= 8, high = ys[1] - ys[0] >= 24;
    if (!wide && !high) return null;
    return { x: wide ? xs : null, y: high && (!wide || !this.together) ? ys : null };
  },

  release(e) {
    const span = this.drag && this.span();
    this.drag = null;
    this.band.setAttribute("visibility", "hidden");
    if (!span) { this.hover(e); return; }
    if (span.y) this.zoomed.y = [this.y.value(span.y[1]), this.y.value(span.y[0])];
    if (span.x) this.zoomX([this.x.value(span.x[0]), this.x.value(span.x[1])]); else this.draw();
  },

  zoomX(x) {
    if (this.together) { this.together.zoom(x); return; }
    this.zoomed.x = x;
    this.draw();
  },

  reset() {
    this.zoomed.y = null;
    this.zoomX(null);
  },

  shareZoom(x) {
    this.zoomed.x = x;
    if (x === null) this.zoomed.y = null;
    this.draw();
  },

  sharePoint(x) {
    if (x === null) this.leave(); else this.showAt(x);
  },

  hover(e) {
    const [px, py] = this.at(e);
    const { box } = this;
    if (px < box.left - 6 || px > box.right + 6 || py < box.top - 8 || py > box.bottom + 8) { this.leave(true); return; }
    if (this.pointwise) this.showNearest(px, py); else this.showAt(this.x.value(px));
    if (this.together) this.together.point(this.x.value(px), this);
  },

  leave(share) {
    this.cursor = null;
    this.tip.replaceChildren();
    this.tip.classList.remove("on");
    if (!this.hair) return;
    this.hair.setAttribute("visibility", "hidden");
    this.spots.replaceChildren();
    if (share && this.together) this.together.point(null, this);
  },

  // showAt tells what every line has at x.
  showAt(x) {
    const rows = [], spots = [];
    for (const { line, i } of this.visible()) {
      const held = line.kind === "steps" || line.kind === "bars";
      const last = line.x[line.x.length - 1];
      if (line.x.length === 0 || (held && (x < line.x[0] || x > last))) continue;
      const k = held ? Math.min(holding(line.x, x), line.y.length - 1) : nearest(line.x, x);
      if (line.y[k] === null) continue;
      rows.push([i, line.name, full(line.y[k], this.spec.y.unit)]);
      spots.push([i, held ? x : line.x[k], line.y[k]]);
    }
    this.cursor = x;
    this.show(x, this.heading(x), rows, spots);
  },

  heading(x) {
    const { spec } = this;
    const bars = spec.lines.find((l) => l.kind === "bars");
    if (bars) {
      const k = Math.max(0, Math.min(holding(bars.x, x), bars.y.length - 1));
      return `${spec.x.name} ${full(bars.x[k])} to ${full(bars.x[k + 1], spec.x.unit)}`;
    }
    return spec.x.scale === "nines" ? "P" + (+x.toFixed(x > 99 ? 3 : 1)) : `${spec.x.name} ${full(x, spec.x.unit)}`;
  },

  // showNearest tells of the one point closest to the pointer.
  showNearest(px, py) {
    let best = null;
    for (const { line, i } of this.visible()) {
      for (let k = 0; k < line.x.length; k++) {
        if (!this.x.takes(line.x[k]) || !this.y.takes(line.y[k])) continue;
        const away = Math.hypot(this.x.px(line.x[k]) - px, this.y.px(line.y[k]) - py);
        if (!best || away < best.away - 0.01) best = { away, line, i, k };
      }
    }
    if (best) this.showPoint(best.line, best.i, best.k);
  },

  showPoint(line, i, k) {
    const { spec } = this;
    this.cursor = line.x[k];
    this.show(line.x[k], (line.labels && line.labels[k]) || line.name,
      [[i, spec.x.name, full(line.x[k], spec.x.unit)], [i, spec.y.name, full(line.y[k], spec.y.unit)]],
      [[i, line.x[k], line.y[k]]]);
  },

  show(x, heading, rows, spots) {
    const { hair, tip, box } = this;
    const px = Math.max(box.left, Math.min(box.right, this.x.px(x)));
    for (const k of ["x1", "x2"]) hair.setAttribute(k, px);
    hair.setAttribute("visibility", "visible");
    this.spots.replaceChildren(...spots.map(([i, vx, vy]) => {
      const at = this.y.takes(vy) ? this.y.px(vy) : box.bottom;
      return el("path", { d: markPath(i, this.x.px(vx), at, 5), class: "spot c" + (i % colours) });
    }));
    tip.replaceChildren(el("strong", {}, heading), ...rows.slice(0, 16).map(([i, name, value]) => el("div", {},
      el("i", { class: "c" + (i % colours) }), el("span", {}, name), el("b", {}, value))));
    tip.classList.add("on");
    const k = this.svg.clientWidth / (this.width - 2 || 1);
    const right = px > (box.left + box.right) / 2;
    const left = right ? px * k - tip.offsetWidth - 14 : px * k + 14;
    tip.style.left = Math.max(0, Math.min(left, this.plot.clientWidth - tip.offsetWidth)) + "px";
    tip.style.top = box.top * k + "px";
  },

  key(e) {
    const act = { ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.step(-1e9), End: () => this.step(1e9),
      "+": () => this.magnify(0.5), "=": () => this.magnify(0.5), "-": () => this.magnify(2), Escape: () => this.reset(), 0: () => this.reset() }[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act();
  },

  // step moves the cursor to the next point.
  step(by) {
    const { low, high } = this.x;
    const points = [];
    for (const { line, i } of this.visible()) {
      line.y.forEach((_, k) => { if (line.x[k] >= low && line.x[k] <= high) points.push({ x: line.x[k], line, i, k }); });
    }
    if (points.length === 0) return;
    points.sort((a, b) => a.x - b.x || a.i - b.i);
    if (this.pointwise) {
      this.place = Math.max(0, Math.min(points.length - 1, (this.place ?? (by > 0 ? -1 : points.length)) + by));
      const p = points[this.place];
      this.showPoint(p.line, p.i, p.k);
      return;
    }
    const xs = [...new Set(points.map((p) => p.x))];
    const now = this.cursor === null ? (by > 0 ? -1 : xs.length) : nearest(xs, this.cursor);
    const x = xs[Math.max(0, Math.min(xs.length - 1, now + by))];
    this.showAt(x);
    if (this.together) this.together.point(x, this);
  },

  // magnify zooms around the cursor.
  magnify(by) {
    const f = transforms[this.scale.x];
    const low = f.to(this.x.low), high = f.to(this.x.high);
    const at = this.cursor !== null && f.takes(this.cursor) ? f.to(this.cursor) : (low + high) / 2;
    const [from, to] = this.extent("x").map(f.to);
    const next = [Math.max(from, at - (at - low) * by), Math.min(to, at + (high - at) * by)];
    if (by > 1 && next[0] <= from && next[1] >= to) { this.zoomX(null); return; }
    this.zoomX(next.map(f.from));
  },
});
