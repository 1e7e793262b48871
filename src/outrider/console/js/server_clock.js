// What time it is at the server, as its answers say: relative times, a rate and how long
// something took are right on a computer whose own clock is wrong.

const TRUSTED_MS = 5_000;

let aheadMs = 0;

/** An answer's Date has whole seconds, and a busy server's is late: so small a difference is none. */
export function hearDate(header) {
  const difference = Date.parse(header) - Date.now();
  if (!Number.isNaN(difference)) {
    aheadMs = Math.abs(difference) > TRUSTED_MS ? difference : 0;
  }
}

export function serverNow() {
  return Date.now() + aheadMs;
}
