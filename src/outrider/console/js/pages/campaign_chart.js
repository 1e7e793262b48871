// The pace of a phase: a chart of what ended when, how fast it goes now, and how long it will take.

import { h } from "../dom.js";
import { serverNow } from "../server_clock.js";
import { ended } from "../state/accounting.js";
import { shownStateOf } from "../state/campaign_view.js";
import { duration, rate } from "../state/format.js";
import { addSample, recentRate, sampleOf, throughputOf, timeLeft } from "../state/throughput.js";
import { throughputChart } from "../parts/chart.js";
import { card } from "../parts/table.js";
import { campaignChart as texts } from "../texts/campaigns.js";

const SAMPLES_TO_DRAW = 3;
export const SETTLE_BEAT_MS = 1_500;

/** `reported` are samples of the phase's events, `throughput` what its jobs had done at their end. */
export function chartCard(view, phase, { reported, accounting, throughput }) {
  const isMoving = shownStateOf(view, phase, serverNow()) === "in_progress";
  const now = isMoving ? recentRate(reported, serverNow()) : null;
  const left = now !== null
    ? timeLeft(view.phases[phase].accounting?.waiting ?? 0, now) : null;
  const drawn = paceOf(view.phases[phase], reported, isMoving, accounting) ?? throughput;
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
 * What events reported of the run, if they cover all of it or it is running; else what its jobs
 * had done when they ended, which is coarse. A run that has stopped ends with what is counted now:
 * calls that were under way ended within about a second.
 */
function paceOf(found, reported, isMoving, accounting) {
  const stood = Date.parse(found.updatedAt) + SETTLE_BEAT_MS;
  const samples = isMoving || !accounting || reported.length === 0
    || ended(accounting) === reported.at(-1).ended ? reported
    : addSample(reported, sampleOf(accounting, stood));
  const isWhole = samples[0]?.ended === 0;
  return samples.length >= SAMPLES_TO_DRAW && (isMoving || isWhole)
    ? throughputOf(samples, { isOver: !isMoving }) : null;
}

function hasSettled({ buckets }) {
  return buckets.some(({ sent, failed, skipped }) => sent + failed + skipped > 0);
}
