// Several attributes of one person on one page: a row of buttons for each, chosen in any order.
// Every button has a key of its own, so that no key means two things: groups take the digits and then letters,
// "cannot tell" takes 0 and then the lower row. The keys of the page itself (d, s, u, g) are in neither.
import { answerText, CANNOT_TELL, keyButton, widths } from "./buttons.js";
import { el, fill } from "./dom.js";
import { words } from "./words.js";

const GROUP_KEYS = [..."123456789qwertyiopafhjklz"];
const NONE_KEYS = [..."0xcvbnm"];

/** The key of every answer: {name, groups: [[group, key]], none}; the last groups of many have none. */
export function keysOf(attributes) {
  const left = [...GROUP_KEYS];
  return attributes.map(({ name, groups }, place) => ({
    name,
    groups: groups.map((group) => [group, left.shift() ?? null]),
    none: NONE_KEYS[place] ?? null,
  }));
}

export class Choices {
  /**
   * `chosen(name, answer, missing)` is called at every choice but the last, `complete(answer)` once all are made: at
   * once, or where `confirm` has a text, when that button is pressed. `none` is what says nothing; `now` is chosen already.
   */
  constructor(attributes, { complete, chosen = () => {}, keys = true, none = CANNOT_TELL, noneText, confirm = null, now = {}, enabled = () => true }) {
    this.attributes = attributes;
    this.acts = { complete, chosen, enabled };
    this.answer = { ...now };
    this.buttons = new Map(); // attribute -> answer -> button
    this.actions = new Map(); // key -> what it does
    this.rows = keysOf(attributes).map((row) => this.#row(row, keys, none, noneText ?? words("cannot_tell")));
    this.confirm = confirm && el("button", { type: "button", class: "main", text: confirm, on: { click: () => this.#finish() } });
    this.#mark();
  }

  get nodes() {
    return [...this.rows, this.confirm];
  }

  /** Another case is on the screen. */
  clear() {
    this.answer = {};
    this.#mark();
  }

  #row({ name, groups, none: noneKey }, keys, none, noneText) {
    const title = el("h3", { text: name, id: `attribute-${this.attributes.findIndex((one) => one.name === name)}` });
    const options = [...groups.map(([group, key]) => [group, group, key]), [none, noneText, noneKey]];
    const made = new Map();
    const buttons = options.map(([answer, text, key]) => {
      const choose = () => this.acts.enabled() && this.#choose(name, answer);
      const button = keyButton(keys ? key : null, text, choose);
      if (keys && key) this.actions.set(key, choose);
      made.set(answer, button);
      return button;
    });
    buttons.at(-1).classList.add("none");
    this.buttons.set(name, made);
    const box = el("div", { class: ["groups", ...widths(groups.map(([group]) => group)), "wide"].join(" ") }, buttons);
    return el("div", { class: "attribute", role: "group", "aria-labelledby": title.id }, title, box);
  }

  #choose(name, answer) {
    this.answer[name] = answer;
    this.#mark();
    const missing = this.attributes.map((one) => one.name).filter((one) => !(one in this.answer));
    if (missing.length || this.confirm) this.acts.chosen(name, answer, missing);
    else this.#finish();
  }

  #finish() {
    const inOrder = this.attributes.map(({ name }) => [name, this.answer[name]]);
    this.acts.complete(Object.fromEntries(inOrder));
  }

  #mark() {
    for (const [name, made] of this.buttons) {
      for (const [answer, button] of made) button.setAttribute("aria-pressed", String(this.answer[name] === answer));
    }
    if (this.confirm) this.confirm.disabled = this.attributes.some(({ name }) => !this.answer[name]);
  }
}

/** Put choices into a place on the page. */
export function place(node, choices) {
  fill(node, choices.nodes).className = "attributes";
}

/** What was chosen so far, and what is left, for who listens. */
export function choiceText(name, answer, missing) {
  const said = words("chosen_part", { attribute: name, answer: answerText(answer) });
  return missing.length ? `${said} ${words("chosen_missing", { rest: missing.join(", ") })}` : said;
}
