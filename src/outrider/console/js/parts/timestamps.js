// Timestamps: relative to now, the exact time on hover; one timer keeps all of them current.

import { h } from "../dom.js";
import { onChoice, preference } from "../preferences.js";
import { serverNow } from "../server_clock.js";
import { absolute, clock, duration, relative } from "../state/format.js";

const BEAT_MS = 5_000;

export function moment(iso) {
  if (!iso) {
    return h("span", { class: "muted" }, "–");
  }
  return h(
    "time",
    { class: "nowrap", datetime: iso, "data-shown": "from",
      title: absolute(iso, preference("zone")) },
    relative(iso, serverNow()),
  );
}

export function exactMoment(iso) {
  if (!iso) {
    return h("span", { class: "muted" }, "–");
  }
  const zone = preference("zone");
  return h("time", { datetime: iso, "data-shown": "exact", title: iso }, absolute(iso, zone));
}

export function clockTime(iso) {
  const zone = preference("zone");
  return h(
    "time",
    { class: "nowrap", datetime: iso, title: absolute(iso, zone), "data-shown": "clock" },
    clock(iso, zone),
  );
}

export function span(from, to) {
  if (!from) {
    return "–";
  }
  return duration((to ? Date.parse(to) : serverNow()) - Date.parse(from));
}

function retell() {
  const zone = preference("zone");
  for (const element of document.querySelectorAll("time[data-shown]")) {
    const iso = element.dateTime;
    const shown = element.dataset.shown;
    if (shown !== "exact") {
      element.title = absolute(iso, zone);
    }
    const words = shown === "from" ? relative(iso, serverNow())
      : shown === "clock" ? clock(iso, zone) : absolute(iso, zone);
    if (element.textContent !== words) {
      element.textContent = words;
    }
  }
}

setInterval(retell, BEAT_MS);
onChoice(retell);
