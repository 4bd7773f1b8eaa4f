// Answers as people read them, and the buttons they press.
import { el } from "./dom.js";
import { words } from "./words.js";

export const CANNOT_TELL = "cannot_tell";
export const DECLINED = "declined";

/** An answer as people read it. */
export function answerText(answer) {
  if (answer !== null && typeof answer === "object") {
    return Object.entries(answer).map(([name, part]) => `${name}: ${part === null ? words("erased_answer") : answerText(part)}`).join(", ");
  }
  if (answer === CANNOT_TELL || answer === DECLINED) return words(answer);
  return answer;
}

/** A button with its key printed on it. */
export function keyButton(key, text, press, hint) {
  const mark = key ? el("kbd", { "aria-hidden": "true", text: key }) : null;
  return el("button", { type: "button", title: hint, "aria-keyshortcuts": key, on: { click: press } }, mark, el("span", { text }));
}

/** Group buttons: the first nine have keys. */
export function groupButtons(groups, press) {
  return groups.map((group, place) => keyButton(place < 9 ? String(place + 1) : null, group, () => press(group)));
}

/** How much room names need: as many columns as they leave readable. */
export function widths(groups) {
  const longest = Math.max(...groups.map((group) => group.length));
  const size = longest <= 8 ? "short" : longest <= 20 ? "medium" : "long";
  return groups.length > 5 ? [size, "wide"] : [size];
}
