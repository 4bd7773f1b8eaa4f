// A little Markdown as nodes: headings, lists, paragraphs, **bold**, *emphasis* and `code`. Everything else is text.
import { el } from "./dom.js";

const INLINE = /(\*\*[^*]+\*\*|\*[^*]+\*|`[^`]+`)/;

function inline(text) {
  return text.split(INLINE).filter(Boolean).map((part) => {
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return el("strong", { text: part.slice(2, -2) });
    if (part.length > 2 && part.startsWith("*") && part.endsWith("*")) return el("em", { text: part.slice(1, -1) });
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return el("code", { text: part.slice(1, -1) });
    return document.createTextNode(part);
  });
}

/** The nodes of a text. */
export function markdown(text) {
  const nodes = [];
  let block = null; // the list or paragraph under way
  for (const line of text.replaceAll("\r\n", "\n").split("\n")) {
    const heading = /^(#{1,4})\s+(.*)$/.exec(line);
    const item = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/.exec(line);
    if (heading) {
      nodes.push(el(heading[1].length < 3 ? "h3" : "h4", {}, inline(heading[2])));
      block = null;
    } else if (item) {
      const tag = item[1] === undefined ? "UL" : "OL";
      if (block?.tagName !== tag) nodes.push((block = el(tag.toLowerCase())));
      block.append(el("li", {}, inline(item[2])));
    } else if (!line.trim()) block = null;
    else {
      if (block?.tagName === "P") block.append(el("br"));
      else nodes.push((block = el("p")));
      block.append(...inline(line));
    }
  }
  return nodes;
}
