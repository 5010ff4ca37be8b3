"use strict";
// Scales, ticks and the way numbers are written. No DOM here.

const transforms = {
  linear: { to: (v) => v, from: (t) => t, takes: () => true },
  log: { to: Math.log10, from: (t) => 10 ** t, takes: (v) => v > 0 },
  // Percentiles: each further nine is as wide as the one before.
  nines: {
    to: (v) => -Math.log10(Math.max(1e-9, 1 - v / 100)),
    from: (t) => 100 * (1 - 10 ** -t),
    takes: (v) => v >= 0 && v <= 100,
  },
};

// makeScale maps values from low..high to pixels a..b.
function makeScale(kind, low, high, a, b) {
  const f = transforms[kind];
  const t0 = f.to(low), t1 = f.to(high);
  const k = t1 === t0 ? 0 : (b - a) / (t1 - t0);
  return {
    kind, low, high,
    px: (v) => a + (f.to(v) - t0) * k,
    value: (px) => (k === 0 ? low : f.from(t0 + (px - a) / k)),
    takes: f.takes,
  };
}

// niceStep is 1, 2 or 5 times a power of ten, or a quarter of one that is whole.
function niceStep(span, count) {
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const m = raw / power;
  return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 2.5 && power >= 10 ? 2.5 : m <= 5 ? 5 : 10);
}

function linearTicks(low, high, count) {
  if (!(high > low)) return [low];
  const step = niceStep(high - low, count), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(+(i * step).toPrecision(12));
  return out;
}

function logTicks(low, high, count) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return linearTicks(low, high, count).filter((v) => v > 0);
  const marks = decades <= 3.2 ? [1, 2, 5] : [1], out = [];
  const every = Math.max(1, Math.ceil(decades / Math.max(2, count)));
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    if (marks.length === 1 && ((e % every) + every) % every !== 0) continue;
    for (const m of marks) {
      const v = +(m * 10 ** e).toPrecision(6);
      if (v >= low * 0.9999 && v <= high * 1.0001) out.push(v);
    }
  }
  return out;
}

function ninesTicks(low, high, count) {
  const all = [0, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 99.9999];
  const few = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999];
  const inside = (v) => v >= low - 1e-9 && v <= high + 1e-9;
  const fine = all.filter(inside);
  const out = fine.length <= count + 1 ? fine : few.filter(inside);
  return out.length > 1 ? out : linearTicks(low, high, count);
}

function ticksOf(scale, count) {
  const make = { linear: linearTicks, log: logTicks, nines: ninesTicks }[scale.kind];
  return make(scale.low, scale.high, count);
}

// short writes a number with few digits.
function short(v) {
  const a = Math.abs(v);
  if (v === 0) return "0";
  if (a >= 1e9) return trim(v / 1e9) + "G";
  if (a >= 1e6) return trim(v / 1e6) + "M";
  if (a >= 1e4) return trim(v / 1e3) + "k";
  return a < 1e-4 ? v.toExponential(1) : trim(v);
}

const trim = (v) => String(+v.toPrecision(4));

// full writes a value with its unit, as tooltips and tables do.
function full(v, unit) {
  if (v === null || v === undefined || Number.isNaN(v)) return "none";
  if (unit === "ms" && Math.abs(v) >= 10000) return full(v / 1000, "s");
  const digits = Math.abs(v) >= 1000 ? 0 : Math.abs(v) >= 100 ? 1 : Math.abs(v) >= 10 ? 2 : 3;
  const text = v.toLocaleString("en-US", { maximumFractionDigits: digits });
  return unit ? text + (unit === "%" ? " %" : " " + unit) : text;
}

// axisUnit says in what to write an axis: long times are told in seconds.
function axisUnit(axis, high) {
  if (axis.unit === "ms" && high >= 10000) return { unit: "s", by: 1 / 1000 };
  if (axis.unit === "s" && high >= 7200) return { unit: "h", by: 1 / 3600 };
  return { unit: axis.unit || "", by: 1 };
}

// nearest is the position in the ascending xs closest to x.
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (xs[mid] < x) low = mid + 1; else high = mid;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

// holding is the position in the ascending edges of the stretch x lies in.
function holding(edges, x) {
  let low = 0, high = edges.length - 1;
  while (low + 1 < high) {
    const mid = (low + high) >> 1;
    if (edges[mid] <= x) low = mid; else high = mid;
  }
  return low;
}
