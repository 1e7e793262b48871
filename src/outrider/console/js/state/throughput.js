// How fast a phase goes: counts of ended items at moments go in, rates between them come out.

export const SAMPLES_MOST = 120;
export const SPANS_LEAST = 30;
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
 * What a chart draws: spans with what a second of each brought on average. Where there are few,
 * nothing is put before them, so that the newest is always at the right.
 */
export function throughputOf(samples) {
  const spans = samples.slice(1).map((sample, index) => [samples[index], sample]);
  const missing = Math.max(0, SPANS_LEAST - spans.length);
  const spanMs = (samples.at(-1).at - samples[0].at) / spans.length;
  const perSecond = (before, after, part) =>
    Math.max(0, ((after[part] - before[part]) * 1000) / (after.at - before.at));
  return {
    from: new Date(samples[0].at - missing * spanMs).toISOString(),
    to: new Date(samples.at(-1).at).toISOString(),
    bucketSeconds: 1,
    buckets: [
      ...Array.from({ length: missing }, () => ({ sent: 0, failed: 0, skipped: 0 })),
      ...spans.map(([before, after]) => ({
        sent: perSecond(before, after, "sent"),
        failed: perSecond(before, after, "failed"),
        skipped: perSecond(before, after, "skipped"),
      })),
    ],
  };
}

/** Milliseconds until all is ended at this rate; null where it stands still. */
export function timeLeft(waiting, perSecond) {
  return perSecond > 0 ? (waiting / perSecond) * 1000 : null;
}
