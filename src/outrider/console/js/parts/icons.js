// Small pictures, drawn on a grid of 16; always beside words, or with a label on their button.

import { s } from "../dom.js";

const PATHS = {
  campaigns: "M2.5 9.5v-3l8-3.5v10l-8-3.5Zm0 0 1 4h2l-.8-3.2M13 6.5v3",
  doubt: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.5m0 2.3v.2M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z",
  workflows: "M3 3h4v3.5H3zM9 9.5h4V13H9zM5 6.5v3.2c0 .9.7 1.6 1.6 1.6H9",
  targets: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-3.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Z",
  trouble: "M8 2.5 14.5 13.5h-13L8 2.5Zm0 4v3m0 2v.2",
  settings: "M2.5 4.5h6m3 0h2m-11 7h2m3 0h6M10 6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm-4 7a1.5 "
    + "1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Zm3.3-1.2L14 14",
  person: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8Zm-5 5.5c.5-2.4 2.4-3.7 5-3.7s4.5 1.3 5 3.7",
  events: "M9 1.8 3.5 9H7.5L7 14.2 12.5 7H8.5L9 1.8Z",
  intents: "M13.5 2.5 2.5 7l4.5 1.8L8.8 13.5l4.7-11ZM7 8.8l3-3",
  workers: "M4 5h8v6H4zM6 5V2.5m4 2.5V2.5M6 13.5V11m4 2.5V11M1.5 6.5H4m-2.5 3H4m8-3h2.5m-2.5 3h2.5",
  audit: "M4 2.5h8v11H4zM6.2 5.5h3.6M6.2 8h3.6m-3.6 2.5h2",
  plus: "M8 3v10M3 8h10",
  copy: "M6 6V3.5h6.5V10H10M3.5 6H10v6.5H3.5z",
  check: "m3 8.5 3.2 3.2L13 5",
  cross: "m4 4 8 8m0-8-8 8",
  menu: "M2.5 4.5h11m-11 3.5h11m-11 3.5h11",
  pause: "M5.5 3.5v9m5-9v9",
  play: "M5 3.2v9.6L12.8 8 5 3.2Z",
  stop: "M4 4h8v8H4z",
  retry: "M13 4v3h-3M12.6 7A5 5 0 1 0 13 9.2",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-9v3l2 1.5",
  circle: "M8 13A5 5 0 1 0 8 3a5 5 0 0 0 0 10Z",
  dash: "M4 8h8",
  half: "M8 13A5 5 0 1 0 8 3a5 5 0 0 0 0 10Zm0-10v10m1.5-8.4v6.8m1.5-5.6v4.4",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Zm0-6.5V11m0-6v.2",
  key: "M9.5 9.2a3.2 3.2 0 1 0-2.7-2.7L2.5 10.8v2.7h2.7v-1.7h1.7v-1.7h1.7l.9-.9Zm1-3.8v.2",
  mail: "M2.5 4h11v8.5h-11zm0 .5L8 9l5.5-4.5",
  sun: "M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8 1.5v1.8m0 9.4v1.8M1.5 8h1.8m9.4 0h1.8M3.4 "
    + "3.4l1.3 1.3m6.6 6.6 1.3 1.3m0-9.2-1.3 1.3m-6.6 6.6-1.3 1.3",
  moon: "M13.2 9.8A5.6 5.6 0 0 1 6.2 2.8a5.6 5.6 0 1 0 7 7Z",
  screen: "M2.5 3h11v7.5h-11zM6 13.2h4",
  exit: "M9.5 3h-6v10h6M7 8h7m0 0-2.5-2.5M14 8l-2.5 2.5",
  upload: "M8 10.5V3m0 0L5 6m3-3 3 3M2.5 11v2.5h11V11",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
};

export function icon(name, size = 16) {
  return s(
    "svg",
    {
      viewBox: "0 0 16 16",
      width: size,
      height: size,
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.5,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
      "aria-hidden": "true",
    },
    s("path", { d: PATHS[name] }),
  );
}
