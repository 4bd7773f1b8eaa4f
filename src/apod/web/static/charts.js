// The other pictures of the dashboard: by number of answers, per group, whom we asked, the bound.
import { byId, el, fill, show, write } from "./dom.js";
import { colours, dash, draw, escaped, faint, SYMBOLS } from "./plots.js";
import { decimal, percent, words } from "./words.js";

const ENOUGH = 20; // audit answers

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

/** The gap on held-out people by audit answers, with intervals: of the head that asks, and without mitigation.
 * Fewer audit answers than this have intervals wider than any picture: those are told in words only. */
function audits(history, colour) {
  const known = history.filter(({ audit }) => audit?.after && audit?.before && audit.answers >= ENOUGH);
  return known.length ? [["before", "audit_before", colour.grey], ["after", "audit_after", colour.green]].map(([field, name, tone]) => {
    const of = ({ audit }) => audit[field];
    const y = known.map((outcome) => points(of(outcome).value));
    const reach = (bound) => known.map((outcome) => Math.abs(points(of(outcome)[bound] ?? of(outcome).value) - points(of(outcome).value)));
    return {
      type: "scatter", mode: "markers", x: known.map(({ answers }) => answers), y, marker: { size: 8, symbol: "diamond", color: tone }, hoverinfo: "text",
      error_y: { type: "data", symmetric: false, array: reach("high"), arrayminus: reach("low"), color: faint(tone, 0.5), thickness: 1.25, width: 0 },
      text: known.map((outcome, place) => escaped(words("audit_hover", { n: outcome.answers, audits: outcome.audit.answers, name: words(name), value: decimal(y[place], 1) }))),
    };
  }) : [];
}

/** A gap with its interval. */
export function gapText({ value, low, high }) {
  return words("audit_gap", { value: decimal(points(value), 1), low: decimal(points(low), 1), high: decimal(points(high), 1) });
}

/** What the audit says now, in words; nothing without one. */
export function drawAudit(audit) {
  const told = audit?.after && audit?.before;
  show(byId("audit"), Boolean(told));
  if (!told) return;
  write(byId("audit-text"), words("audit_text", { n: audit.answers, before: gapText(audit.before), after: gapText(audit.after) }));
  write(byId("audit-notes"), (audit.notes ?? []).join(" "));
}

/** Gap and accuracy of the shown strength after every model, with the unmitigated head beside it. */
export function drawRounds({ history }, strength) {
  const colour = colours();
  const x = history.map(({ answers }) => answers);
  const of = (wanted, field) => history.map(({ curve }) => points(curve.find((point) => point.strength === wanted)?.[field]));
  const shared = { type: "scatter", x, hoverinfo: "text" };
  const tell = (values, name, unit) => values.map((value, place) => escaped(words("round_hover", { n: x[place], name, value: `${decimal(value, 1)}${unit}` })));
  const series = (field, unit, [low, high]) => {
    const none = of(0, field);
    const with_ = of(strength, field);
    const band = { ...shared, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    return [
      { ...band, y: of(strength, low) },
      { ...band, y: of(strength, high), fill: "tonexty", fillcolor: faint(colour.blue) },
      { ...shared, y: none, mode: "lines", line: { color: colour.grey, width: 2, dash: "dash" }, text: tell(none, words("no_mitigation"), unit) },
      { ...shared, y: with_, mode: "lines+markers", line: { color: colour.blue, width: 2.25 }, marker: { size: 5 }, text: tell(with_, words("with_mitigation"), unit) },
    ];
  };
  const across = { title: words("answers_axis"), tickformat: "d" };
  for (const id of ["gap", "accuracy"]) byId(`${id}-rounds`).setAttribute("aria-label", words(`${id}_rounds_spoken`, { first: x[0], last: x.at(-1) }));
  const gaps = series("gap", "", ["gap_low", "gap_high"]);
  const audited = audits(history, colour);
  const high = Math.max(1, ...[...gaps.slice(1), ...audited].flatMap(({ y }) => y).filter((value) => value !== null && value !== undefined));
  draw(byId("gap-rounds"), [...gaps, ...audited], { x: across, y: { title: words("gap_axis"), range: [-0.04 * high, 1.08 * high] } });
  draw(byId("accuracy-rounds"), series("accuracy", "%", ["low", "high"]), { x: across, y: { title: words("accuracy_axis"), ticksuffix: "%" } });
  legend("rounds-legend", [
    { colour: colour.blue, line: "solid", name: words("with_strength", { strength: decimal(strength, 2) }) },
    { colour: colour.grey, line: "dash", name: words("no_mitigation") },
    ...(audited.length ? [{ colour: colour.green, mark: "diamond", name: words("audit_after") }, { colour: colour.grey, mark: "diamond", name: words("audit_before") }] : []),
  ]);
}

/** Per group: rates without mitigation (hollow) and at the shown strength (filled). */
export function drawRates(outcome, strength, labels) {
  const place = outcome.curve.findIndex((point) => point.strength === strength);
  const groups = outcome.rates;
  for (const field of ["tpr", "fpr"]) {
    const colour = colours();
    const names = groups.map(({ group }) => escaped(group));
    const before = groups.map((entry) => points(entry.before[field]));
    const after = groups.map((entry) => points(entry.after[place]?.[field]));
    const far = Math.max(1, ...before, ...after);
    const arms = { type: "scatter", mode: "lines", x: [], y: [], line: { color: colour.rule, width: 4 }, hoverinfo: "skip" };
    groups.forEach((_, row) => {
      arms.x.push(before[row], after[row], null);
      arms.y.push(names[row], names[row], null);
    });
    const dots = (x, trace, name) => ({ type: "scatter", mode: "markers", y: names, x, hoverinfo: "text", cliponaxis: false, text: x.map((value, row) => escaped(words("rate_hover", { group: groups[row].group, name, value: decimal(value, 1) }))), ...trace });
    const traces = [
      arms,
      dots(before, { marker: { size: 13, color: colour.paper, line: { color: colour.grey, width: 2.5 } } }, words("no_mitigation")),
      dots(after, { marker: { size: 13, color: colour.blue } }, words("with_mitigation")),
    ];
    byId(field).setAttribute("aria-label", words("rates_spoken", { rate: words(field) }));
    draw(byId(field), traces, {
      height: 96 + 44 * groups.length, x: { title: words(`${field}_axis`, { positive: labels[1], negative: labels[0] }), ticksuffix: "%", range: [-0.03 * far, 1.06 * far] },
      y: { range: [groups.length - 0.4, -0.6], type: "category", ticks: "", tickfont: { size: 14 } }, move: true,
    });
  }
  const cell = (value, digits = 1) => el("td", { text: percent(value, digits) });
  fill(byId("rates"), groups.map(({ group, size, answers, before, after }) => {
    const now = after[place] ?? {};
    return el("tr", {}, el("th", { scope: "row", text: group }), el("td", { text: decimal(size, 0) }), el("td", { text: decimal(answers, 0) }),
      ["tpr", "fpr", "selection_rate", "accuracy"].flatMap((field) => [cell(before[field]), cell(now[field])]));
  }));
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
  draw(byId("subgroups"), traces, { x: { title: words("answers_axis"), tickformat: "d" }, y: { title: words("answered_axis"), rangemode: "tozero", tickformat: "d" } });
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
