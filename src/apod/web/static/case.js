// One case: a table row, a picture or a text, readable and as text only.
import { el, fill } from "./dom.js";
import { plain, words } from "./words.js";

function valueText({ kind, value }) {
  if (kind === "missing" || value === null) return words("not_given");
  if (kind === "flag") return words(value ? "yes" : "no");
  return typeof value === "number" ? plain(value) : String(value);
}

function shortField(item) {
  const { title, unit, kind } = item;
  const value = el("dd", { class: kind, text: valueText(item) });
  if (unit && kind !== "missing") value.append(" ", el("span", { class: "unit", text: unit }));
  return el("div", { class: "field" }, el("dt", { text: title }), value);
}

function longField(item, alone) {
  return el("section", { class: "text" }, alone ? null : el("h3", { text: item.title }), el("p", { class: "prose", text: valueText(item) }));
}

function picture(image) {
  const box = el("div", { class: "picture" }, image);
  const broken = () => fill(box, el("p", { class: "broken", role: "alert", text: words("picture_missing") }));
  if (image.complete && image.naturalWidth === 0) broken();
  else image.addEventListener("error", broken);
  return box;
}

/** A picture that is being fetched. */
function fetched(source) {
  return el("img", { src: source, alt: words("picture_alt"), draggable: "false" });
}

/** Pictures of the cases at hand, fetched ahead of their turn and kept, so that they are there without a network. */
export class Pictures {
  constructor() {
    this.images = new Map();
  }

  /** Fetch those of these questions; forget all others. */
  ahead(questions) {
    const wanted = questions.filter((question) => question.picture !== null);
    this.images = new Map(wanted.map(({ id, picture: source }) => [id, this.images.get(id) ?? fetched(source)]));
  }

  of({ id, picture: source }) {
    return this.images.get(id) ?? fetched(source);
  }
}

/** A question's case as a node. */
export function renderCase(question, pictures = new Pictures()) {
  const { fields, picture: source, label } = question;
  const long = fields.filter(({ kind }) => kind === "long");
  const rows = fields.filter(({ kind }) => kind !== "long").map(shortField);
  if (label !== null) {
    rows.push(el("div", { class: "field decided" }, el("dt", { text: words("label_shown") }), el("dd", { text: label })));
  }
  return el(
    "div",
    { class: source ? "case with-picture" : "case" },
    source ? picture(pictures.of(question)) : null,
    long.map((item) => longField(item, fields.length === 1)),
    rows.length ? el("dl", { class: rows.length > 7 ? "fields many" : "fields" }, rows) : null,
    source || fields.length ? null : el("p", { class: "note", text: words("nothing_shown") }),
  );
}

/** The case in one breath, for who listens. */
export function spoken({ fields, label }) {
  const parts = fields.slice(0, 12).map((item) => `${item.title}: ${valueText(item)} ${item.unit ?? ""}`.trim());
  if (label !== null) parts.push(`${words("label_shown")}: ${label}`);
  return parts.join(". ");
}
