// Talking to the server: JSON over the same origin, with a time limit, and errors that say whether to try again.

const LIMIT = 15000; // milliseconds
const RETRY = new Set([408, 425, 429, 500, 502, 503, 504]);

/** What went wrong: `status` 0 means that no answer came. */
export class ApiError extends Error {
  constructor(status, code, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later; it is safe to repeat, having the same key. */
  get retryable() {
    return this.status === 0 || RETRY.has(this.status);
  }
}

/** Call the API: the parsed answer, or an ApiError. */
export async function call(method, path, body, kind = "application/json") {
  const options = { method, credentials: "same-origin", cache: "no-store", headers: { Accept: kind } };
  options.signal = AbortSignal.timeout(LIMIT);
  if (method !== "GET") options.headers["X-Apod"] = "1";
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  let text;
  try {
    response = await fetch(`/api/v1${path}`, options);
    text = await response.text();
  } catch {
    throw new ApiError(0, "unreachable", "");
  }
  if (response.ok && kind !== "application/json") return text;
  const parsed = parse(text);
  if (response.ok && parsed !== undefined) return parsed;
  const { code = "internal", message = response.statusText } = parsed?.error ?? {};
  const wait = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  throw new ApiError(response.ok ? 502 : response.status, code, message, Number.isFinite(wait) ? wait : null);
}

function parse(text) {
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // not our server: a proxy's error page, say
  }
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}, kind = undefined) => call("POST", path, body, kind);
export const put = (path, body) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);
