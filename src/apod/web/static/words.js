// How texts are looked up, filled in and made fit for a language. The texts themselves stand in texts.js.
import { LANGUAGE, TEXTS } from "./texts.js";

const plurals = new Intl.PluralRules(LANGUAGE);
const whole = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });

/** The text of this name with {placeholders} filled in; where it has forms, `n` chooses the singular or plural. */
export function words(name, values = {}) {
  let found = TEXTS[name];
  if (found === undefined) throw new Error(`There is no text ${name}.`);
  if (typeof found === "object") found = found[plurals.select(values.n)] ?? found.other;
  return found.replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? whole.format(values[key]) : String(values[key])));
}

/** A time span in the unit people would use. */
export function span(seconds) {
  if (seconds < 90) return words("seconds", { n: Math.max(1, Math.round(seconds)) });
  if (seconds < 90 * 60) return words("minutes", { n: Math.round(seconds / 60) });
  if (seconds < 36 * 3600) return words("hours", { n: Math.round(seconds / 3600) });
  return words("days", { n: Math.round(seconds / 86400) });
}

/** How long ago something was. */
export function ago(seconds) {
  return seconds < 10 ? words("just_now") : words("ago", { span: span(seconds) });
}

/** A moment as people write it: the time of today, or the day too. */
export function when(moment) {
  const date = new Date(moment);
  const today = date.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(LANGUAGE, { ...(today ? {} : { dateStyle: "medium" }), timeStyle: "short" }).format(date);
}

/** A number of the data as a person would write it: no thousands mark below 10,000, so that 1994 stays a year. */
export function plain(value) {
  if (!Number.isFinite(value)) return "";
  return new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 4, useGrouping: Math.abs(value) >= 10000 }).format(value);
}

/** A share in percent. */
export function percent(value, digits = 1) {
  if (value === null || value === undefined || Number.isNaN(value)) return words("unknown_number");
  return new Intl.NumberFormat(LANGUAGE, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** A fixed number of decimals. */
export function decimal(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return words("unknown_number");
  return new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** A strength: places on a path lie close together near 0. */
export function strengthText(value) {
  return decimal(value, value > 0 && value < 0.1 ? 3 : 2);
}

/** Fill every element that names its text: data-text, data-label (for screen readers), data-hint (placeholder). */
export function translate(root = document) {
  document.documentElement.lang = LANGUAGE;
  for (const node of root.querySelectorAll("[data-text]")) node.textContent = words(node.dataset.text);
  for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", words(node.dataset.label));
  for (const node of root.querySelectorAll("[data-hint]")) node.setAttribute("placeholder", words(node.dataset.hint));
}
