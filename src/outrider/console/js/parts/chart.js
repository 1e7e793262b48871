// Charts as plain SVG: stacked columns over time. Numbers in, elements out.

import { h, s } from "../dom.js";
import { compact, rate } from "../state/format.js";
import { clockTime } from "./timestamps.js";
import { chart as texts } from "../texts/parts.js";

const WIDTH = 720;
const HEIGHT = 160;
const TOP = 8;
const BOTTOM = 2;
const GRID = [0, 0.5, 1];
const PARTS = ["sent", "failed", "skipped"];

/** throughput: {bucketSeconds, from, to, buckets: [{at, sent, failed, skipped}]} */
export function throughputChart(throughput) {
  const { buckets, bucketSeconds } = throughput;
  const perSecond = (items) => items / Math.max(bucketSeconds, 0.001);
  const totals = buckets.map((bucket) => PARTS.reduce((all, part) => all + bucket[part], 0));
  const most = niceMost(perSecond(Math.max(...totals, 0)));
  const step = WIDTH / Math.max(buckets.length, 1);
  const height = (items) => ((HEIGHT - TOP - BOTTOM) * perSecond(items)) / most;
  const columns = buckets.map((bucket, index) => {
    let y = HEIGHT - BOTTOM;
    return PARTS.filter((part) => bucket[part] > 0).map((part) => {
      const tall = height(bucket[part]);
      y -= tall;
      return s("rect", {
        class: `chart-${part}`,
        x: (index * step + step * 0.12).toFixed(1),
        y: y.toFixed(1),
        width: (step * 0.76).toFixed(1),
        height: Math.max(tall, 0.8).toFixed(1),
        rx: 1,
      });
    });
  });
  const peak = perSecond(Math.max(...totals, 0));
  return h(
    "figure",
    {},
    h(
      "div",
      { class: "chart-box" },
      s(
        "svg",
        {
          class: "chart",
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": texts.label(rate(peak)),
        },
        GRID.map((share) => gridLine(share)),
        columns,
      ),
      GRID.map((share) => gridLabel(share, most)),
    ),
    h(
      "figcaption",
      { class: "with-bar-words chart-axis" },
      clockTime(throughput.from),
      h("span", {}, texts.peak(rate(peak))),
      clockTime(throughput.to),
    ),
  );
}

function gridLine(share) {
  const y = heightOf(share);
  return s("line", { class: "chart-grid", x1: 0, x2: WIDTH, y1: y, y2: y });
}

/** Beside the drawing, which is stretched, while letters must not be. */
function gridLabel(share, most) {
  return h(
    "span",
    { class: "chart-label", style: { top: `${(100 * heightOf(share)) / HEIGHT}%` } },
    share === 0 ? "0" : compactRate(most * share),
  );
}

function heightOf(share) {
  return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

function compactRate(perSecond) {
  return perSecond < 10 ? String(Number(perSecond.toFixed(2))) : compact(perSecond);
}

/** 1, 2 or 5 times a power of ten, at or above the value. */
function niceMost(value) {
  if (value <= 0) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}
