// The other pictures of the dashboard: by number of answers, per group, whom we asked, the bound.
import { kindOf } from "./curve.js";
import { byId, el, fill, show, write } from "./dom.js";
import { colours, dash, draw, escaped, faint, SYMBOLS } from "./plots.js";
import { decimal, percent, strengthText, words } from "./words.js";

const points = (value) => (value === null || value === undefined ? null : 100 * value);

const MARKS = {
  circle: "M7.5 6a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", ring: "M7.5 6a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", dot: "M9.5 6a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z",
  square: "M8 2h8v8h-8z", diamond: "M12 1l5 5l-5 5l-5-5z", "triangle-up": "M12 1.5l5 8.5h-10z", cross: "M10.5 1h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
};

/** A legend of the page's own: wraps, can be read aloud, and shows the line style besides the colour. */
function legend(id, entries) {
  const svg = (name, attributes, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const dashes = { solid: "none", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
  fill(byId(id), entries.map(({ colour, line, mark, name }) => {
    const key = mark
      ? svg("path", { d: MARKS[mark] ?? MARKS.circle, fill: mark === "ring" ? "none" : colour, stroke: colour, "stroke-width": mark === "ring" ? 2 : 0 })
      : svg("line", { x1: 0, x2: 24, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": dashes[line] });
    return el("li", {}, svg("svg", { width: 24, height: 12, "aria-hidden": "true" }, key), ` ${name}`);
  }));
}

/** The gap of the base model on people held out, by audit answers, with intervals; where they say anything. */
function audits(history, colour) {
  const known = history.filter(({ audit }) => audit?.before?.says);
  if (!known.length) return [];
  const middle = ({ low, high, value }) => points(value ?? (low + high) / 2);
  const y = known.map(({ audit }) => middle(audit.before));
  const reach = (bound) => known.map(({ audit }, place) => Math.abs(points(audit.before[bound]) - y[place]));
  return [{
    type: "scatter", mode: "markers", x: known.map(({ answers }) => answers), y, hoverinfo: "text",
    marker: { size: 8, symbol: "diamond", color: colour.green, opacity: known.map(({ audit }) => (audit.before.value === null ? 0 : 1)) },
    error_y: { type: "data", symmetric: false, array: reach("high"), arrayminus: reach("low"), color: faint(colour.green, 0.5), thickness: 1.25, width: 0 },
    text: known.map(({ answers, audit }) => escaped(words("audit_hover", { n: answers, audits: audit.answers, name: words("audit_before"), value: gapText(audit.before) }))),
  }];
}

/** A gap with its interval; few answers give no estimate. */
export function gapText({ value, low, high }) {
  const ends = { low: decimal(points(low), 1), high: decimal(points(high), 1) };
  return value === null ? words("audit_span", ends) : words("audit_gap", { value: decimal(points(value), 1), ...ends });
}

/** The 95% interval of the gap to expect without mitigation, as a band. */
function band(history, colour) {
  const known = history.filter(({ estimate }) => estimate && estimate.base.interval[0] !== null);
  if (!known.length) return [];
  const edge = (end) => ({
    type: "scatter", mode: "lines", x: known.map(({ answers }) => answers), y: known.map(({ estimate }) => points(estimate.base.interval[end])),
    line: { width: 0, color: colour.grey }, hoverinfo: "skip",
  });
  return [edge(0), { ...edge(1), fill: "tonexty", fillcolor: faint(colour.grey, 0.2) }];
}

/** Gap and accuracy after every model: without mitigation, and at the operating point where there is one.
 *
 * A correction's own path moves with every answer: what is drawn of it is the place that its answers spoke for. */
export function drawRounds({ history, chosen }, strength) {
  const colour = colours();
  const x = history.map(({ answers }) => answers);
  const of = (wanted, field) => history.map(({ curve, operating }) => {
    const place = wanted && chosen === null && operating ? operating.strength : wanted;
    return points(curve.find((point) => point.strength === place)?.[field]);
  });
  const shared = { type: "scatter", x, hoverinfo: "text" };
  const tell = (values, name, unit) => values.map((value, place) => escaped(words("round_hover", { n: x[place], name, value: `${decimal(value, 1)}${unit}` })));
  const series = (field, unit) => {
    const none = of(0, field);
    const found = [{ ...shared, y: none, mode: "lines", line: { color: colour.grey, width: 2, dash: "dash" }, text: tell(none, words("no_mitigation"), unit) }];
    if (!strength) return found;
    const with_ = of(strength, field);
    return [...found, { ...shared, y: with_, mode: "lines+markers", line: { color: colour.blue, width: 2.25 }, marker: { size: 5 }, text: tell(with_, words("with_mitigation"), unit) }];
  };
  const across = { title: words("answers_axis"), tickformat: "d" };
  for (const id of ["gap", "accuracy"]) byId(`${id}-rounds`).setAttribute("aria-label", words(`${id}_rounds_spoken`, { first: x[0], last: x.at(-1) }));
  const audited = audits(history, colour);
  const gaps = [...band(history, colour), ...series("gap", "")];
  const tops = audited.flatMap(({ y, error_y: { array } }) => y.map((value, place) => value + array[place]));
  const high = Math.max(1, ...tops, ...gaps.flatMap(({ y }) => y).filter((value) => value !== null));
  draw(byId("gap-rounds"), [...gaps, ...audited], { x: across, y: { title: words(audited.length ? "measured_gap_axis" : kindOf(history.at(-1), "gap_axis")), range: [-0.04 * high, 1.08 * high] } });
  draw(byId("accuracy-rounds"), series("accuracy", "%"), { x: across, y: { title: words("accuracy_axis"), ticksuffix: "%" } });
  legend("rounds-legend", [
    { colour: colour.grey, line: "dash", name: words("no_mitigation") },
    ...(band(history, colour).length ? [{ colour: faint(colour.grey, 0.4), mark: "square", name: words("expected_band") }] : []),
    ...(strength ? [{ colour: colour.blue, line: "solid", name: words("with_strength", { strength: strengthText(strength) }) }] : []),
    ...(audited.length ? [{ colour: colour.green, mark: "diamond", name: words("audit_before") }] : []),
  ]);
}

/** A rate in percent: its estimate, where there is one, and its interval. */
function rateText({ value, low, high }) {
  const between = low === null ? words("unknown_number") : words("interval", { low: decimal(points(low), 1), high: decimal(points(high), 1) });
  return value === null ? between : `${decimal(points(value), 1)} (${between})`;
}

/** Per group, what the audit answers say: rates without mitigation (hollow) and at the operating point (filled). */
export function drawRates(audit, labels) {
  show(byId("rates-known"), audit !== null);
  write(byId("rates-text"), audit === null ? words("rates_none") : words("rates_text", { n: audit.answers }));
  if (audit === null) return;
  const views = [["before", "no_mitigation"], ["after", "with_mitigation"]].filter(([name]) => audit[name]);
  const names = Object.keys(audit.before.groups);
  const colour = colours();
  for (const field of ["tpr", "fpr"]) {
    const traces = views.map(([view, name], place) => {
      const found = names.map((group) => audit[view].groups[group][field]);
      const x = found.map(({ value, low, high }) => points(value ?? (low === null ? null : (low + high) / 2)));
      const tone = place ? colour.blue : colour.grey;
      const reach = (end) => found.map((rate, row) => (rate[end] === null ? 0 : Math.abs(points(rate[end]) - x[row])));
      return {
        type: "scatter", mode: "markers", x, y: names.map((_, row) => row + (views.length > 1 ? 0.3 * place - 0.15 : 0)), hoverinfo: "text", cliponaxis: false,
        marker: { size: 12, color: place ? tone : colour.paper, line: { color: tone, width: 2.5 }, opacity: found.map(({ value }) => (value === null ? 0 : 1)) },
        error_x: { type: "data", symmetric: false, array: reach("high"), arrayminus: reach("low"), color: tone, thickness: 2.5, width: 0 },
        text: found.map((rate, row) => escaped(words("rate_hover", { group: names[row], name: words(name), value: rateText(rate) }))),
      };
    });
    byId(field).setAttribute("aria-label", words("rates_spoken", { rate: words(field) }));
    draw(byId(field), traces, {
      height: 96 + 44 * names.length, x: { title: words(`${field}_axis`, { positive: labels[1], negative: labels[0] }), ticksuffix: "%", range: [-3, 103] },
      y: { range: [names.length - 0.4, -0.6], tickvals: names.map((_, row) => row), ticktext: names.map(escaped), ticks: "", tickfont: { size: 14 } }, move: true,
    });
  }
  fill(byId("rates"), names.map((group) => el("tr", {}, el("th", { scope: "row", text: group }),
    el("td", { text: words("counts_of_labels", audit.told?.[group] ?? { negative: words("unknown_number"), positive: words("unknown_number") }) }),
    ["tpr", "fpr", "selection_rate"].flatMap((field) => ["before", "after"].map((view) => el("td", { text: audit[view] ? rateText(audit[view].groups[group][field]) : words("unknown_number") }))))));
  write(byId("audit-notes"), (audit.notes ?? []).join(" "));
}

/** How many of each subgroup were answered, after every answer. */
export function drawSubgroups({ subgroups }, groups, labels) {
  const colour = colours();
  const entries = subgroups.counts.map(({ group, label, counts }) => {
    const tone = colour.series[Math.max(0, groups.indexOf(group)) % colour.series.length];
    return { name: words("subgroup", { group, label }), line: { color: tone, width: 2.25, dash: dash(label === labels[1] ? 0 : 1), shape: "hv" }, counts };
  });
  const traces = entries.map(({ name, line, counts }) => ({
    type: "scatter", mode: "lines", x: subgroups.answers, y: counts, line, hoverinfo: "text", cliponaxis: false,
    text: counts.map((count, place) => escaped(words("subgroup_hover", { n: subgroups.answers[place], name, count }))),
  }));
  draw(byId("subgroups"), traces, { x: { title: words("all_answers_axis"), tickformat: "d" }, y: { title: words("answered_axis"), rangemode: "tozero", tickformat: "d" } });
  legend("subgroups-legend", entries.map(({ name, line }) => ({ name, colour: line.color, line: line.dash })));
}

/** The pool as a plane, with those who were asked about. */
export function drawMap(map, groups, labels) {
  const colour = colours();
  const of = (wanted) => map.points.label.map((label, place) => (label === wanted ? place : -1)).filter((place) => place >= 0);
  const cloud = [0, 1].map((label) => {
    const places = of(label);
    return {
      type: "scatter", mode: "markers", x: places.map((place) => map.points.x[place]), y: places.map((place) => map.points.y[place]), hoverinfo: "skip",
      marker: { size: label ? 4.5 : 3, color: label ? colour.soft : colour.grey }, opacity: label ? 0.75 : 0.35,
    };
  });
  const { asked } = map;
  const kinds = [...groups, null];
  const rings = kinds.map((answer, place) => {
    const mine = asked.answer.map((given, index) => (given === answer ? index : -1)).filter((index) => index >= 0);
    return {
      type: "scatter", mode: "markers", x: mine.map((index) => asked.x[index]), y: mine.map((index) => asked.y[index]), hoverinfo: "text",
      text: mine.map((index) => escaped(words("map_hover", { number: asked.number[index], id: asked.row_id[index], answer: answer ?? words("no_group") }))),
      marker: {
        size: 12, symbol: answer === null ? "circle-open" : SYMBOLS[place % SYMBOLS.length], color: answer === null ? colour.ink : colour.series[place % colour.series.length],
        line: { color: answer === null ? colour.ink : colour.paper, width: 1.5 },
      },
    };
  });
  const bare = { showgrid: false, showticklabels: false, ticks: "" }; // the axes mean nothing
  draw(byId("map"), [...cloud, ...rings], { x: bare, y: bare, margin: { l: 4, r: 4, t: 4, b: 4 } });
  legend("map-legend", [
    ...groups.map((group, place) => ({ name: words("asked_group", { group }), colour: colour.series[place % colour.series.length], mark: SYMBOLS[place % SYMBOLS.length] })),
    { name: words("asked_open"), colour: colour.ink, mark: "ring" },
    { name: words("pool_label", { label: labels[1] }), colour: colour.soft, mark: "dot" },
    { name: words("pool_label", { label: labels[0] }), colour: colour.rule, mark: "dot" },
  ]);
}

/** The bound of Theorem 1 beside what it bounds. */
export function drawBound({ history }) {
  const colour = colours();
  const known = history.filter(({ bound }) => bound);
  show(byId("bound-section"), known.length > 0);
  show(document.querySelector('a[href="#bound-section"]'), known.length > 0);
  if (!known.length) return;
  const x = known.map(({ answers }) => answers);
  const lines = [
    ["bound", words("bound"), { color: colour.blue, width: 2.5, dash: "solid" }],
    ["sampling_term", words("sampling_term"), { color: colour.orange, width: 1.75, dash: "dash" }],
    ["covering_term", words("covering_term"), { color: colour.green, width: 1.75, dash: "dot" }],
    ["epsilon", words("epsilon"), { color: colour.purple, width: 1.75, dash: "dashdot" }],
    ["observed", words("observed"), { color: colour.ink, width: 2.5, dash: "solid" }],
  ];
  const traces = lines.map(([field, name, line]) => {
    const y = known.map(({ bound }) => bound[field]);
    return { type: "scatter", mode: "lines+markers", marker: { size: 4 }, x, y, line, hoverinfo: "text", text: y.map((value, place) => escaped(words("round_hover", { n: x[place], name, value: decimal(value, 3) }))) };
  });
  draw(byId("bound"), traces, { x: { title: words("answers_axis"), tickformat: "d" }, y: { title: words("loss_axis"), type: "log", dtick: 1 } });
  legend("bound-legend", lines.map(([, name, line]) => ({ name, colour: line.color, line: line.dash })));
}
