const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);

function make(tag, attributes = {}, text = "") {
  const drawn = ["svg", "path", "text", "rect", "circle", "marker"].includes(tag);
  const node = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

function fill(select, names, kept, values = names) {
  select.replaceChildren(...names.map((name, i) => new Option(name, values[i])));
  if (values.map(String).includes(kept)) select.value = kept;
}

