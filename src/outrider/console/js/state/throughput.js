// How fast a phase goes: counts of ended items at moments go in, rates between them come out.

export const SAMPLES_MOST = 240;
const RECENT_MS = 10_000;

/** Samples are {at: milliseconds, ended: items}; one that goes back begins anew: another run. */
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

/** The rates between neighbours, each at the end of its span. */
export function rates(samples) {
  return samples.slice(1).map((sample, index) => ({
    at: sample.at,
    perSecond: ((sample.ended - samples[index].ended) * 1000) / (sample.at - samples[index].at),
  }));
}

/** Milliseconds until all is ended at this rate; null where it stands still. */
export function timeLeft(waiting, perSecond) {
  return perSecond > 0 ? (waiting / perSecond) * 1000 : null;
}
