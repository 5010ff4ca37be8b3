const canvas = document.getElementById("c"), about = document.getElementById("about"), ctx = canvas.getContext("2d");
const length = b => b.f + b.g.reduce((a, x) => a + x, 0);
const end = bars.reduce((m, b) => Math.max(m, b.s + length(b)), 1);
let t0, t1, r0, r1;
function all() { t0 = 0; t1 = end * 1.02; r0 = 0; r1 = Math.max(bars.length, 1); }
all();
const left = 56, bottom = 26;
function draw() {
  const scale = window.devicePixelRatio || 1, w = canvas.clientWidth, h = 640;
  canvas.width = w * scale; canvas.height = h * scale; ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, w, h);
  const x = t => left + (t - t0) / (t1 - t0) * (w - left), y = r => (r - r0) / (r1 - r0) * (h - bottom);
  const tall = Math.max(1, y(1) - y(0) - (r1 - r0 < 200 ? 1 : 0));
  ctx.save(); ctx.beginPath(); ctx.rect(left, 0, w - left, h - bottom); ctx.clip();
  for (let i = Math.max(0, Math.floor(r0)); i < Math.min(bars.length, Math.ceil(r1)); i++) {
    const b = bars[i], top = y(i);
    let t = b.s;
    const piece = (d, color) => {
      const a = x(t), z = x(t + d);
      if (z >= left && a <= w) { ctx.fillStyle = color; ctx.fillRect(a, top, Math.max(z - a, 0.6), tall); }
      t += d;
    };
    piece(b.f, b.e ? "#000" : "#9aa5b1");
    for (const g of b.g) piece(g, g < low ? "#3b7dd8" : g < high ? "#e8a33d" : "#a3264b");
  }
  ctx.restore();
  ctx.fillStyle = getComputedStyle(document.body).color; ctx.font = "11px system-ui"; ctx.textAlign = "center";
  const step = tick((t1 - t0) / 8);
  for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) ctx.fillText(label(t, step), x(t), h - 8);
  ctx.textAlign = "right";
  const rows = Math.max(1, tick((r1 - r0) / 10));
  for (let r = Math.ceil(r0 / rows) * rows; r < r1; r += rows) ctx.fillText(r, left - 6, y(r) + 10);
}
function tick(x) { const p = 10 ** Math.floor(Math.log10(Math.max(x, 1e-3))); return p * [1, 2, 5, 10].find(m => m * p >= x); }
function label(t, step) { return step >= 1000 ? (t / 1000).toFixed(0) + " s" : step >= 100 ? (t / 1000).toFixed(1) + " s" : t.toFixed(step < 1 ? 1 : 0) + " ms"; }
function at(e) {
  const box = canvas.getBoundingClientRect();
  return { t: t0 + (e.clientX - box.left - left) / (box.width - left) * (t1 - t0), r: r0 + (e.clientY - box.top) / (640 - bottom) * (r1 - r0) };
}
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const p = at(e), k = e.deltaY > 0 || e.deltaX > 0 ? 1.25 : 0.8;
  if (e.shiftKey) { r0 = Math.max(0, p.r - (p.r - r0) * k); r1 = Math.min(bars.length, p.r + (r1 - p.r) * k); }
  else { t0 = Math.max(0, p.t - (p.t - t0) * k); t1 = Math.min(end * 1.02, p.t + (t1 - p.t) * k); }
  draw();
}, { passive: false });
let from = null;
canvas.addEventListener("pointerdown", e => { from = at(e); canvas.setPointerCapture(e.pointerId); });
canvas.addEventListener("pointerup", () => { from = null; });
canvas.addEventListener("pointermove", e => {
  const p = at(e);
  if (from) { const dt = from.t - p.t, dr = from.r - p.r; t0 += dt; t1 += dt; r0 += dr; r1 += dr; draw(); return; }
  const b = bars[Math.floor(p.r)];
  if (!b) { about.textContent = "\u00a0"; return; }
  const worst = b.g.length ? Math.max(...b.g) : 0;
  about.textContent = `${b.n || "request " + Math.floor(p.r)}: sent ${(b.s / 1000).toFixed(3)} s, first token ${b.f.toFixed(1)} ms, ` +
    `${b.i} in, ${b.o} out, longest gap ${worst.toFixed(1)} ms, ended ${((b.s + length(b)) / 1000).toFixed(3)} s${b.e ? ", failed: " + b.e : ""}`;
});
canvas.addEventListener("dblclick", () => { all(); draw(); });
window.addEventListener("resize", draw);
draw();
