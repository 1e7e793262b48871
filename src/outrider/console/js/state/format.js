// Numbers, durations and moments as people read them. The time that is now is always given.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const COMPACT_UNITS = [[1e9, "B"], [1e6, "M"], [1e3, "k"]];
const BYTE_UNITS = ["B", "kB", "MB", "GB"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun",
  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(number) {
  return number === null || number === undefined ? "–" : WHOLE.format(number);
}

/** 1234 → "1.2k": where there is no room for all of it. */
export function compact(number) {
  for (const [unit, letter] of COMPACT_UNITS) {
    if (number >= unit) {
      const scaled = number / unit;
      return `${scaled >= 100 ? Math.floor(scaled) : Math.floor(scaled * 10) / 10}${letter}`;
    }
  }
  return String(Math.round(number));
}

/** Never 100 % before all of it, and never 0 % where there is some. The sign stays beside it. */
export function percentage(value) {
  return `${ofHundred(value)}\u00a0%`;
}

function ofHundred(value) {
  if (value <= 0 || value >= 100) {
    return value <= 0 ? 0 : 100;
  }
  if (value < 1) {
    return "<1";
  }
  return value > 99 ? Math.min(99.9, Math.floor(value * 10) / 10) : Math.floor(value);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function duration(milliseconds) {
  const value = Math.max(0, milliseconds);
  if (value < SECOND) {
    return `${Math.round(value)} ms`;
  }
  if (value < MINUTE) {
    const seconds = value / SECOND;
    return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.floor(seconds)} s`;
  }
  if (value < HOUR) {
    return inTwo(value, MINUTE, "min", SECOND, "s");
  }
  return value < DAY ? inTwo(value, HOUR, "h", MINUTE, "min") : inTwo(value, DAY, "d", HOUR, "h");
}

function inTwo(value, unit, name, smaller, smallerName) {
  const rest = Math.floor((value % unit) / smaller);
  return `${Math.floor(value / unit)} ${name}${rest > 0 ? ` ${rest} ${smallerName}` : ""}`;
}

export function rate(perSecond) {
  if (perSecond >= 100) {
    return `${count(perSecond)}/s`;
  }
  if (perSecond >= 1) {
    return `${perSecond.toFixed(1)}/s`;
  }
  return perSecond > 0 ? `${(perSecond * 60).toFixed(1)}/min` : "0/s";
}

export function bytes(size) {
  let value = size;
  let unit = 0;
  while (value >= 1000 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${BYTE_UNITS[unit]}`;
}

/** "3 min ago", "in 2 h": coarse on purpose; the exact moment is in the title. */
export function relative(moment, now) {
  const distance = new Date(moment).getTime() - now;
  const size = Math.abs(distance);
  if (Number.isNaN(size)) {
    return "–";
  }
  if (size < 5 * SECOND) {
    return "now";
  }
  const words = coarse(size);
  return distance < 0 ? `${words} ago` : `in ${words}`;
}

function coarse(size) {
  if (size < MINUTE) {
    return `${Math.floor(size / SECOND)} s`;
  }
  if (size < HOUR) {
    return `${Math.floor(size / MINUTE)} min`;
  }
  if (size < DAY) {
    return `${Math.floor(size / HOUR)} h`;
  }
  return plural(Math.floor(size / DAY), "day");
}

/** "5 Mar 2026, 14:03:07 UTC", or without a zone in the reader's own. */
export function absolute(moment, zone) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) {
    return "–";
  }
  const parts = partsOf(date, zone);
  const day = `${parts.day} ${MONTHS[parts.month]} ${parts.year}`;
  return `${day}, ${clock(moment, zone)}${zone === "utc" ? " UTC" : ""}`;
}

/** "5 Mar 2026" */
export function dayOf(moment, zone) {
  const { day, month, year } = partsOf(new Date(moment), zone);
  return `${day} ${MONTHS[month]} ${year}`;
}

/** "14:03:07" */
export function clock(moment, zone) {
  const { hours, minutes, seconds } = partsOf(new Date(moment), zone);
  return [hours, minutes, seconds].map((part) => String(part).padStart(2, "0")).join(":");
}

function partsOf(date, zone) {
  return zone === "utc"
    ? {
        day: date.getUTCDate(),
        month: date.getUTCMonth(),
        year: date.getUTCFullYear(),
        hours: date.getUTCHours(),
        minutes: date.getUTCMinutes(),
        seconds: date.getUTCSeconds(),
      }
    : {
        day: date.getDate(),
        month: date.getMonth(),
        year: date.getFullYear(),
        hours: date.getHours(),
        minutes: date.getMinutes(),
        seconds: date.getSeconds(),
      };
}

/** The end of an id tells it from its neighbours; its beginning is the time. */
export function shortId(id) {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

/** "there is no run 7" → "There is no run 7." What begins with a sign stays as it is. */
export function sentence(words) {
  const begun = words.charAt(0).toUpperCase() + words.slice(1);
  return /[\p{L}\p{N}'"`)]$/u.test(begun) ? `${begun}.` : begun;
}

/** audience_import → "Audience import", dns_validation → "DNS validation" */
export function title(name) {
  const words = name.replaceAll(/[_.-]+/g, " ").trim()
    .replaceAll(/\b(dns|http|sms|id|spf|dkim|dmarc|ptr|tls)\b/gi, (word) => word.toUpperCase());
  return words.charAt(0).toUpperCase() + words.slice(1);
}
