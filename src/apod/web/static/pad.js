// The answers as buttons and keys.
import { byId, el, fill, show, write } from "./dom.js";
import { words } from "./words.js";

export const CANNOT_TELL = "cannot_tell";
export const DECLINED = "declined";
const SETTLE = 200; // milliseconds a case has to be on the screen before a key answers it: a bouncing key answers nothing
const SWITCH = "apod.single-keys";

/** An answer as people read it. */
export function answerText(answer) {
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

/** Whether single keys answer (they can be switched off, for instance for voice control). */
export function singleKeys() {
  try {
    return localStorage.getItem(SWITCH) !== "off";
  } catch {
    return true;
  }
}

export function setSingleKeys(on) {
  try {
    localStorage.setItem(SWITCH, on ? "on" : "off");
  } catch {
    // the switch then lasts until the page is closed
  }
}

export class Pad {
  /** `acts` has answer(value), skip(), undo(); `tools` has guidelines(), help(). */
  constructor(campaign, acts, tools) {
    this.shownAt = 0;
    this.enabled = false;
    this.keys = singleKeys();
    this.actions = new Map([
      ["0", () => acts.answer(CANNOT_TELL)],
      ["d", () => acts.answer(DECLINED)],
      ["s", () => acts.skip()],
      ["u", () => acts.undo()],
    ]);
    campaign.groups.slice(0, 9).forEach((group, place) => this.actions.set(String(place + 1), () => acts.answer(group)));
    this.tools = new Map([["g", tools.guidelines], ["?", tools.help]]);
    write(byId("question"), campaign.question ?? words(`ask_${campaign.kind}`));
    const groups = byId("groups");
    groups.classList.add(...widths(campaign.groups));
    fill(groups, groupButtons(campaign.groups, (group) => this.enabled && acts.answer(group)));
    this.buttons = new Map([["0", "cannot_tell"], ["d", "declined"], ["s", "skip"], ["u", "undo"]].map(([key, name]) => {
      const button = keyButton(key, words(name), () => this.press(key), words(`${name}_hint`));
      return [key, button];
    }));
    fill(byId("others"), ...this.buttons.values());
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  press(key) {
    if (key === "u" || this.enabled) this.actions.get(key)();
  }

  /** A case is on the screen; without one only "undo" is left. */
  update({ visible, enabled, undo }) {
    show(byId("pad"), visible || undo);
    show(byId("groups"), visible);
    show(byId("question"), visible);
    this.enabled = enabled;
    for (const button of byId("pad").querySelectorAll("button")) button.disabled = !enabled;
    for (const [key, button] of this.buttons) show(button, visible || key === "u");
    this.buttons.get("u").disabled = !undo;
  }

  arrived() {
    this.shownAt = performance.now();
  }

  #key(event) {
    if (!this.keys || event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") || event.target.closest?.("input, textarea, select")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const tool = this.tools.get(key);
    if (tool) {
      event.preventDefault();
      tool();
      return;
    }
    if (!this.actions.has(key)) return;
    event.preventDefault();
    if (performance.now() - this.shownAt < SETTLE) return;
    if (key === "u" ? !this.buttons.get("u").disabled : this.enabled) this.actions.get(key)();
  }
}
