// Plotly under a strict Content-Security-Policy, in the colours of the page.
//
// Plotly wants to add style sheets of its own, which the policy rightly forbids. The element with the id below tells it
// that its rules are there already (dashboard.css has the few that matter), and while it loads, the sheet of its maps,
// which nobody draws here, becomes an element without effect. Nothing else of the policy has to give way: texts with
// markup would need style attributes, so all texts are escaped (`plain`).

const HAS_RULES = "plotly.js-style-global";

/** Load plotly once; the wheel's own file, from this server. */
export function loadPlotly() {
  const told = document.createElement("meta");
  told.id = HAS_RULES;
  told.className = "no-inline-styles";
  document.head.append(told);
  const create = document.createElement;
  document.createElement = (name, options) => create.call(document, name === "style" ? "meta" : name, options);
  const script = create.call(document, "script");
  script.src = "/static/plotly.min.js";
  return new Promise((loaded, failed) => {
    const restore = (then) => () => {
      document.createElement = create;
      then(window.Plotly);
    };
    script.addEventListener("load", restore(loaded));
    script.addEventListener("error", restore(() => failed(new Error("plotly.min.js did not load"))));
    document.head.append(script);
  });
}

/** A text that plotly shows as it is. */
export function escaped(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The page's colours as they are now, light or dark. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["paper", "card", "ink", "soft", "rule", "grid", "blue", "vermillion", "green", "orange", "purple", "grey"];
  const found = Object.fromEntries(names.map((name) => [name, of(name)]));
  return { ...found, series: ["vermillion", "blue", "green", "orange", "purple", "grey", "ink"].map((name) => found[name]) };
}

/** A colour of the page (#rrggbb) that lets what is behind it through. */
export function faint(hex, share = 0.18) {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${share})`;
}

const CALM = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const DASHES = ["solid", "dash", "dot", "dashdot"];
export const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star"];

/** The n-th line style, for who cannot tell colours apart. */
export const dash = (place) => DASHES[place % DASHES.length];

function axis(colour, given) {
  return {
    gridcolor: colour.grid, zeroline: false, linecolor: colour.soft, tickcolor: colour.soft, ticks: "outside", ticklen: 4,
    tickfont: { color: colour.soft, size: 12 }, automargin: true, fixedrange: true, showline: false,
    ...given,
    title: { text: escaped(given.title ?? ""), font: { size: 12.5, color: colour.ink }, standoff: 10 },
  };
}

/** Draw or redraw a figure. `move` lets marks glide to their new places, unless the reader asked for calm. */
export function draw(node, traces, { x = {}, y = {}, move = false, ...layout } = {}) {
  const colour = colours();
  const family = getComputedStyle(document.body).fontFamily;
  const whole = {
    autosize: true, height: 320, margin: { l: 8, r: 14, t: 10, b: 8 }, showlegend: false, dragmode: false, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family, color: colour.ink, size: 13 },
    hoverlabel: { bgcolor: colour.ink, bordercolor: colour.ink, font: { color: colour.paper, family, size: 13 }, align: "left" },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -0.22, yanchor: "top", font: { size: 13 }, itemclick: false, itemdoubleclick: false },
    transition: move && !CALM() ? { duration: 260, easing: "cubic-in-out" } : { duration: 0 },
    ...layout, xaxis: axis(colour, x), yaxis: axis(colour, y),
  };
  return window.Plotly.react(node, traces, whole, { displayModeBar: false, responsive: true, doubleClick: false });
}
