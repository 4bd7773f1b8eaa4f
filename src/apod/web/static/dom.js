// Building pages out of nodes. Data becomes text and nothing else: no module of these pages parses a string as HTML.

/** An element: `props` are attributes, `on` listeners and `text`; children are nodes, texts or nothing. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    else if (name === "text") node.textContent = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The element with this id; it has to be there. */
export function byId(id) {
  const node = document.getElementById(id);
  if (node === null) throw new Error(`There is no element ${id} on this page.`);
  return node;
}

/** Put these children in place of the present ones. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A text change only where there is one, so that nothing is announced or drawn twice. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show or hide. */
export function show(node, visible) {
  node.hidden = !visible;
}
