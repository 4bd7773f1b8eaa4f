// The answers as buttons and keys.
import { CANNOT_TELL, DECLINED, groupButtons, keyButton, widths } from "./buttons.js";
import { Choices, choiceText, place } from "./choices.js";
import { byId, fill, show, write } from "./dom.js";
import { words } from "./words.js";

const SETTLE = 200; // milliseconds a case has to be on the screen before a key answers it: a bouncing key answers nothing
const SWITCH = "apod.single-keys";

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
  /** `acts` has answer(value), skip(), undo(); `tools` has guidelines(), help(), say(text). */
  constructor(campaign, acts, tools) {
    this.shownAt = 0;
    this.enabled = false;
    this.keys = singleKeys();
    this.actions = new Map([
      ["d", () => acts.answer(DECLINED)],
      ["s", () => acts.skip()],
      ["u", () => acts.undo()],
    ]);
    this.tools = new Map([["g", tools.guidelines], ["?", tools.help]]);
    this.several = campaign.attributes.length > 1;
    const question = this.several ? words(`ask_several_${campaign.kind}`) : words(`ask_${campaign.kind}`);
    write(byId("question"), campaign.question ?? question);
    if (this.several) this.#attributes(campaign.attributes, acts, tools);
    else this.#groups(campaign.groups, acts);
    const others = [...(this.several ? [] : [["0", "cannot_tell"]]), ["d", "declined"], ["s", "skip"], ["u", "undo"]];
    this.buttons = new Map(others.map(([key, name]) => {
      const button = keyButton(key, words(name), () => this.press(key), words(`${name}_hint`));
      return [key, button];
    }));
    fill(byId("others"), ...this.buttons.values()).classList.toggle("three", this.several);
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  #groups(names, acts) {
    this.actions.set("0", () => acts.answer(CANNOT_TELL));
    names.slice(0, 9).forEach((group, place) => this.actions.set(String(place + 1), () => acts.answer(group)));
    const groups = byId("groups");
    groups.classList.add(...widths(names));
    fill(groups, groupButtons(names, (group) => this.enabled && acts.answer(group)));
  }

  /** All attributes of the person; the answer goes with the last of them. */
  #attributes(attributes, acts, tools) {
    this.choices = new Choices(attributes, {
      complete: (answer) => acts.answer(answer),
      chosen: (...news) => tools.say(choiceText(...news)),
      enabled: () => this.enabled,
    });
    for (const [key, choose] of this.choices.actions) this.actions.set(key, choose);
    place(byId("groups"), this.choices);
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
    this.choices?.clear();
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
