// The pace of a phase: a chart of what ended when, how fast it goes now, and how long it will take.

import { h } from "../dom.js";
import { serverNow } from "../server_clock.js";
import { ended } from "../state/accounting.js";
import { shownStateOf } from "../state/campaign_view.js";
import { duration, rate } from "../state/format.js";
import { addSample, recentRate, sampleOf, throughputOf, timeLeft } from "../state/throughput.js";
import { throughputChart } from "../parts/chart.js";
import { card } from "../parts/table.js";
import { campaignChart as texts } from "../texts.js";

const SAMPLES_TO_DRAW = 3;
export const SETTLE_BEAT_MS = 1_500;

/** `told` is what events told of the phase, `throughput` what its jobs had done when they ended. */
export function chartCard(view, phase, { told, accounting, throughput }) {
  const isMoving = shownStateOf(view, phase, serverNow()) === "in_progress";
  const now = isMoving ? recentRate(told, serverNow()) : null;
  const left = now !== null
    ? timeLeft(view.phases[phase].accounting?.waiting ?? 0, now) : null;
  const drawn = paceOf(view.phases[phase], told, isMoving, accounting) ?? throughput;
  return card(
    texts.throughput,
    h("div", { class: "card-body" },
      drawn && hasSettled(drawn)
        ? throughputChart(drawn)
        : h("p", { class: "muted" }, texts.noChartYet)),
    now !== null && h("span", { class: "small" }, h("span", { class: "strong" }, rate(now)),
      h("span", { class: "muted" }, texts.now)),
    left > 1000 && h("span", { class: "small muted" }, texts.timeLeft(duration(left))),
  );
}

/**
 * What events told of the run, where they tell all of it, or it is going on; else what its jobs
 * had done when they ended, which is coarse. What stands still ends with what is counted now:
 * calls that were under way ended within about a second.
 */
function paceOf(found, told, isMoving, accounting) {
  const stood = Date.parse(found.updatedAt) + SETTLE_BEAT_MS;
  const samples = isMoving || !accounting || told.length === 0
    || ended(accounting) === told.at(-1).ended ? told
    : addSample(told, sampleOf(accounting, stood));
  const isWhole = samples[0]?.ended === 0;
  return samples.length >= SAMPLES_TO_DRAW && (isMoving || isWhole)
    ? throughputOf(samples, { isOver: !isMoving }) : null;
}

function hasSettled({ buckets }) {
  return buckets.some(({ sent, failed, skipped }) => sent + failed + skipped > 0);
}
