// How fast a phase goes: counts of ended items at moments go in, rates between them come out.

import { ended } from "./accounting.js";

export const SAMPLES_MOST = 120;
export const SPANS_LEAST = 30;
const SPANS_MOST = 60;
const SPAN_MS_LEAST = 1_000;
const RECENT_MS = 10_000;

/**
 * Samples are {at: milliseconds, ended: items, sent, failed, skipped}; one that goes back begins
 * anew: another run.
 */
export function addSample(samples, sample) {
  const last = samples.at(-1);
  if (last && sample.at <= last.at) {
    return samples;
  }
  if (last && sample.ended < last.ended) {
    return [sample];
  }
  return [...samples, sample].slice(-SAMPLES_MOST);
}

export function sampleOf(accounting, at) {
  const { sent, failed, skipped } = accounting;
  return { at, ended: ended(accounting), sent, failed, skipped };
}

/** Per second, over the last moments; null where too little is known. */
export function recentRate(samples, now) {
  const recent = samples.filter((sample) => now - sample.at <= RECENT_MS);
  if (recent.length < 2) {
    return null;
  }
  const first = recent[0];
  const last = recent.at(-1);
  return ((last.ended - first.ended) * 1000) / (last.at - first.at);
}

/**
 * What a chart draws: equal spans of time, with what a second of each brought on average. While a
 * run is young, nothing is put before it, so that the newest is always at the right.
 */
export function throughputOf(samples, { isOver = false } = {}) {
  const from = samples[0].at;
  const to = samples.at(-1).at;
  const spanMs = isOver ? (to - from) / SPANS_LEAST
    : Math.max(SPAN_MS_LEAST, (to - from) / SPANS_MOST);
  const spans = Math.max(SPANS_LEAST, Math.ceil((to - from) / spanMs));
  const at = Array.from({ length: spans + 1 }, (_, place) => to - (spans - place) * spanMs);
  const perSecond = (place, part) => {
    const gained = countAt(samples, at[place + 1], part) - countAt(samples, at[place], part);
    return Math.max(0, (gained * 1000) / spanMs);
  };
  return {
    from: new Date(at[0]).toISOString(),
    to: new Date(to).toISOString(),
    bucketSeconds: 1,
    buckets: at.slice(1).map((_, place) => ({
      sent: perSecond(place, "sent"),
      failed: perSecond(place, "failed"),
      skipped: perSecond(place, "skipped"),
    })),
  };
}

/** Between two samples it is on the line between them. */
function countAt(samples, moment, part) {
  const next = samples.findIndex((sample) => sample.at >= moment);
  if (next <= 0) {
    return samples.at(next)[part];
  }
  const [before, after] = [samples[next - 1], samples[next]];
  const share = (moment - before.at) / (after.at - before.at);
  return before[part] + share * (after[part] - before[part]);
}

/** Milliseconds until all is ended at this rate; null if nothing ends. */
export function timeLeft(waiting, perSecond) {
  return perSecond > 0 ? (waiting / perSecond) * 1000 : null;
}
