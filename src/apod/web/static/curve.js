// The accuracy-fairness curve after every answer, and the choice of the operating point on it.
import { byId, el, fill, show, write } from "./dom.js";
import { colours, draw, escaped, faint } from "./plots.js";
import { decimal, percent, strengthText, words } from "./words.js";

const STEP = 350; // milliseconds between two models while playing

const points = (value) => (value === null ? null : 100 * value);

/** The accuracy-fairness plane: range over all models, so that a movement is seen as one. */
function ranges(history) {
  const all = history.flatMap(({ curve }) => curve).filter(({ gap, accuracy }) => gap !== null && accuracy !== null);
  const span = (values) => {
    const low = Math.min(...values);
    const high = Math.max(...values);
    const room = Math.max(0.12 * (high - low), 0.5);
    return [low - room, high + room];
  };
  if (!all.length) return { x: [0, 10], y: [50, 100] };
  const ends = marked(history.at(-1)).flatMap(({ interval }) => interval ?? []).filter((end) => end !== null);
  const x = span([...all.map(({ gap }) => gap), ...ends].map((gap) => 100 * gap));
  return { x: [Math.min(0, Math.max(x[0], -1)), x[1]], y: span(all.map(({ accuracy }) => 100 * accuracy)) };
}

/** The gap of a point: guessed, or to expect with its interval. */
function gapOf({ gap, interval }) {
  const value = decimal(points(gap), 1);
  if (!interval || interval[0] === null) return value;
  return words("gap_within", { value, low: decimal(points(interval[0]), 1), high: decimal(points(interval[1]), 1) });
}

/** The points of a model that have bars: without mitigation, and at the strength that its answers support. */
function marked({ curve, operating }, strength = null) {
  if (!operating) return [];
  return curve.filter((point) => point.strength === 0 || point.strength === (strength ?? operating.strength));
}

/** What a text is called where gaps come with an interval, and where they are guesses. */
export const kindOf = (outcome, name) => (outcome?.basis === "posterior" ? `${name}_expected` : name);

function hover(outcome, point) {
  const { strength, accuracy } = point;
  const name = strength === 0 ? words("no_mitigation") : words("strength_is", { strength: strengthText(strength) });
  return escaped(words(kindOf(outcome, "curve_hover"), { name, accuracy: percent(accuracy), gap: gapOf(point) }));
}

export class Curve {
  /** `choose(strength)` is called when a point is picked. */
  constructor(choose) {
    this.choose = choose;
    this.data = null;
    this.place = 0;
    this.live = true; // follow the newest model until somebody moves the slider
    this.playing = null;
    byId("when").addEventListener("input", (event) => {
      this.stop();
      this.go(Number(event.target.value));
    });
    byId("play").addEventListener("click", () => (this.playing === null ? this.play() : this.stop()));
  }

  update(data, strength) {
    this.data = data;
    this.strength = strength;
    const last = data.history.length - 1;
    if (this.live || this.place > last) this.place = last;
    byId("when").max = Math.max(0, last);
    show(byId("time"), last > 0);
    this.draw();
  }

  go(place) {
    this.place = place;
    this.live = place === this.data.history.length - 1;
    this.draw();
  }

  play() {
    if (this.live) this.place = -1;
    write(byId("play"), words("stop"));
    this.playing = setInterval(() => {
      if (this.place >= this.data.history.length - 1) this.stop();
      else this.go(this.place + 1);
    }, STEP);
    if (this.place < this.data.history.length - 1) this.go(this.place + 1);
  }

  stop() {
    clearInterval(this.playing);
    this.playing = null;
    write(byId("play"), words("play"));
  }

  draw() {
    const { history } = this.data;
    const outcome = history[this.place];
    if (!outcome) return;
    const said = words("after_answers", { n: outcome.answers });
    byId("when").value = this.place;
    byId("when").setAttribute("aria-valuetext", said);
    write(byId("when-text"), said);
    this.#plot(history, outcome);
    this.#table(outcome);
  }

  #plot(history, outcome) {
    const colour = colours();
    const at = ({ curve }) => curve.find(({ strength }) => strength === this.strength);
    const line = (curve, trace) => ({
      type: "scatter", x: curve.map(({ gap }) => points(gap)), y: curve.map(({ accuracy }) => points(accuracy)), ...trace,
    });
    const picked = at(outcome);
    const trail = history.slice(0, this.place + 1).map(at).filter(Boolean);
    const told = outcome.curve.map((point) => hover(outcome, point));
    const barred = marked(outcome, this.strength).filter(({ interval }) => interval && interval[0] !== null);
    const bar = (end) => barred.map(({ gap, interval }) => points(Math.abs(interval[end] - gap)));
    const traces = [
      line(history[0].curve, { mode: "lines", line: { color: colour.grey, width: 1.5, dash: "dot" }, hoverinfo: "skip", opacity: this.place ? 0.7 : 0 }),
      line(trail, { mode: "lines", line: { color: colour.orange, width: 1.75 }, hoverinfo: "skip", opacity: 0.55 }),
      line(barred, {
        mode: "markers", marker: { size: 1, color: colour.blue }, hoverinfo: "skip",
        error_x: { type: "data", symmetric: false, array: bar(1), arrayminus: bar(0), color: faint(colour.blue, 0.5), thickness: 2, width: 5 },
      }),
      line(outcome.curve, {
        mode: "lines+markers", line: { color: colour.blue, width: 1.25 }, text: told, hoverinfo: "text", customdata: outcome.curve.map(({ strength }) => strength),
        marker: {
          size: 12, symbol: outcome.curve.map(({ strength }) => (strength === 0 ? "square" : "circle")),
          color: outcome.curve.map(({ strength }) => (strength === 0 ? colour.paper : colour.blue)),
          line: { width: 2, color: outcome.curve.map(({ strength }) => (strength === 0 ? colour.grey : colour.blue)) },
        },
      }),
      line(picked ? [picked] : [], { mode: "markers", marker: { size: 22, symbol: "circle-open", color: colour.ink, line: { width: 2 } }, hoverinfo: "skip" }),
    ];
    const { x, y } = ranges(history);
    const node = byId("curve");
    const layout = { x: { title: words(kindOf(outcome, "gap_axis")), range: x }, y: { title: words("accuracy_axis"), range: y, ticksuffix: "%" }, height: 400, move: true };
    draw(node, traces, layout).then(() => this.#listen(node));
    node.setAttribute("aria-label", words(kindOf(outcome, "curve_spoken"), { n: outcome.answers, strengths: outcome.curve.length }));
  }

  #listen(node) {
    if (this.listening) return;
    this.listening = true;
    node.on("plotly_click", ({ points: [point] }) => point.customdata !== undefined && this.choose(point.customdata));
  }

  #table(outcome) {
    const rows = outcome.curve.map((point) => {
      const { strength, accuracy } = point;
      const here = strength === this.strength;
      const radio = el("input", {
        type: "radio", name: "strength", checked: here, value: String(strength), on: { change: () => this.choose(strength) },
        "aria-label": strength === 0 ? words("no_mitigation") : words("strength_is", { strength: strengthText(strength) }),
      });
      return el("tr", { class: here ? "marked" : null },
        el("td", { class: "pick" }, radio),
        el("th", { scope: "row", text: strength === 0 ? words("zero_strength") : strengthText(strength) }),
        el("td", { text: percent(accuracy) }),
        el("td", { text: gapOf(point) }));
    });
    const focused = document.activeElement?.name === "strength" ? document.activeElement.value : null;
    fill(byId("strengths"), rows);
    const here = byId("strengths").querySelector(".marked");
    if (here && this.seen !== this.strength) here.closest(".scroll").scrollTop = here.offsetTop - 3 * here.offsetHeight;
    this.seen = this.strength; // the table moves to the operating point when that changes, not under a reader's hand
    if (focused !== null) byId("strengths").querySelector(`[value="${CSS.escape(focused)}"]`)?.focus();
  }
}
