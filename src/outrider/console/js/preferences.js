// What a reader chose: theme and time zone. Kept in this browser, and nothing else is.

const PREFIX = "outrider.";
const DEFAULTS = { theme: "system", zone: "local" };
const CHOICES = { theme: ["system", "light", "dark"], zone: ["local", "utc"] };
const listeners = new Set();

export function preference(name) {
  let kept = null;
  try {
    kept = localStorage.getItem(PREFIX + name);
  } catch {
    // A browser may refuse to keep anything.
  }
  return CHOICES[name].includes(kept) ? kept : DEFAULTS[name];
}

export function choose(name, value) {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // Then it holds for this page only.
  }
  apply();
  listeners.forEach((listener) => listener(name));
}

export function onChoice(listener) {
  listeners.add(listener);
}

export function apply() {
  document.documentElement.dataset.theme = preference("theme");
}
