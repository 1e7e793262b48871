// Calls to the server: by the session's cookie, changes with the session's token and an idempotency
// key, so that a repeat over a bad network happens once.

import { hearDate } from "./server_clock.js";
import { api as texts } from "./texts/frame.js";

const BASE = "/api/v2";
const REPEATS_MOST = 2;
const REPEAT_WAIT_MS = 400;

let csrfToken = null;
let owner = null;
let onSignedOut = () => {};

export class ApiError extends Error {
  constructor(status, document) {
    const error = document?.error ?? {};
    super(error.message ?? document?.detail ?? texts.unexpectedAnswer);
    this.status = status;
    this.code = error.code ?? "UNKNOWN";
    this.error = error;
    this.fields = error.fields ?? [];
    this.hint = error.hint ?? null;
    this.requestId = document?.requestId ?? null;
  }

  get isConflict() {
    return this.status === 409;
  }
}

/** The line died: nobody knows what the server did. */
export class NoAnswer extends Error {
  constructor() {
    super(texts.unreachable);
  }
}

export function whenSignedOut(handler) {
  onSignedOut = handler;
}

export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const session = {
  /** Another tab may have signed in as somebody else: nothing is done in their name from here. */
  async current() {
    const found = await request("GET", "/session", { quiet: true });
    if (owner !== null && ownerOf(found) !== owner) {
      onSignedOut();
      throw new ApiError(401, { error: { message: texts.otherUser } });
    }
    return keepToken(found);
  },
  async signIn(key) {
    return keepToken(await request("POST", "/session", { body: { key }, quiet: true }));
  },
  async signOut() {
    await request("DELETE", "/session", { quiet: true });
    csrfToken = null;
    owner = null;
  },
};

function ownerOf({ name, scopes, workspace }) {
  return JSON.stringify([name, scopes, workspace]);
}

function keepToken(found) {
  csrfToken = found.csrfToken;
  owner = ownerOf(found);
  return found;
}

export function get(path, query = {}, options = {}) {
  return request("GET", withQuery(BASE + path, query), options);
}

export function post(path, body, options = {}) {
  return change("POST", path, body, options);
}

export function put(path, body, options = {}) {
  return change("PUT", path, body, options);
}

export function remove(path, options = {}) {
  return change("DELETE", path, undefined, options);
}

/** Repeated under the same key while the line dies: the server does it once. */
async function change(method, path, body, options) {
  const key = options.key ?? newKey();
  const url = withQuery(BASE + path, options.query ?? {});
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await request(method, url, { ...options, body, key });
    } catch (error) {
      if (!(error instanceof NoAnswer) || repeats >= REPEATS_MOST) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, REPEAT_WAIT_MS * (repeats + 1)));
    }
  }
}

async function request(method, url, options = {}, isRepeat = false) {
  const headers = { Accept: "application/json" };
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  if (method !== "GET") {
    if (csrfToken) {
      headers["X-CSRF-Token"] = csrfToken;
    }
    if (options.key) {
      headers["X-Idempotency-Key"] = options.key;
    }
  }
  const { response, document } = await fetched(url, {
    method,
    headers,
    body: options.body === undefined ? undefined : JSON.stringify(options.body),
    signal: options.signal,
    credentials: "same-origin",
    redirect: "error",
  });
  if (response.ok) {
    return document;
  }
  const error = new ApiError(response.status, document);
  if (error.code === "CSRF_TOKEN_INVALID" && !isRepeat) {
    await session.current();
    return request(method, url, options, true);
  }
  if (error.status === 401 && !options.quiet) {
    onSignedOut();
  }
  throw error;
}

async function fetched(url, options) {
  try {
    const response = await fetch(url, options);
    hearDate(response.headers.get("Date"));
    return { response, document: parsed(await response.text()) };
  } catch (error) {
    throw error.name === "AbortError" ? error : new NoAnswer();
  }
}

/** A file as the body; `onProgress` receives the share that was sent. */
export function upload(path, file, mediaType, onProgress) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    call.open("POST", BASE + path);
    call.setRequestHeader("Content-Type", mediaType);
    call.setRequestHeader("X-CSRF-Token", csrfToken ?? "");
    call.setRequestHeader("X-Idempotency-Key", newKey());
    call.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) {
        onProgress(event.loaded / event.total);
      }
    });
    call.addEventListener("error", () => reject(new NoAnswer()));
    call.addEventListener("load", () => {
      const document = parsed(call.responseText);
      if (call.status >= 200 && call.status < 300) {
        resolve(document);
      } else {
        if (call.status === 401) {
          onSignedOut();
        }
        reject(new ApiError(call.status, document));
      }
    });
    call.send(file);
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function withQuery(path, query) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") {
      given.set(name, value);
    }
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

/** A part of a path that came from data. */
export function segment(text) {
  return encodeURIComponent(text);
}
