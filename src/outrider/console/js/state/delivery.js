// What receipts report of messages that were sent: by state, together as many as were sent.

import { delivery as texts } from "../texts/runs.js";

export const UNKNOWN = "unknown";

/** As the pages order them: what arrived, what did not, and what nobody has reported on. */
export const DELIVERIES = Object.freeze(["delivered", "read", "replied", "bounced", "complained",
  "optedOut", "failed", UNKNOWN]);

const NAMES = Object.freeze({
  delivered: texts.delivered,
  read: texts.read,
  replied: texts.replied,
  bounced: texts.bounced,
  complained: texts.complained,
  optedOut: texts.optedOut,
  failed: texts.notDelivered,
  unknown: texts.unknown,
});

/** Of an item's state, or of one of the counts of a run. */
export function deliveryName(state) {
  return NAMES[state === "opted_out" ? "optedOut" : state] ?? state;
}

/** Those that have any, with how many; nothing where no receipt has arrived. */
export function reported(counts) {
  const present = DELIVERIES.filter((state) => counts?.[state] > 0);
  return present.some((state) => state !== UNKNOWN)
    ? present.map((state) => ({ state, count: counts[state] })) : [];
}
