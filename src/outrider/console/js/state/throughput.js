// How fast a phase goes: counts of ended items at moments go in, rates between them come out.

export const SAMPLES_MOST = 240;
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

/** What a chart draws: spans of one length, each with what a second of it brought on average. */
export function throughputOf(samples) {
  const spans = samples.slice(1).map((sample, index) => [samples[index], sample]);
  const perSecond = (before, after, part) =>
    Math.max(0, ((after[part] - before[part]) * 1000) / (after.at - before.at));
  return {
    from: new Date(samples[0].at).toISOString(),
    to: new Date(samples.at(-1).at).toISOString(),
    bucketSeconds: 1,
    buckets: spans.map(([before, after]) => ({
      at: new Date(before.at).toISOString(),
      sent: perSecond(before, after, "sent"),
      failed: perSecond(before, after, "failed"),
      skipped: perSecond(before, after, "skipped"),
    })),
  };
}

/** Milliseconds until all is ended at this rate; null where it stands still. */
export function timeLeft(waiting, perSecond) {
  return perSecond > 0 ? (waiting / perSecond) * 1000 : null;
}
