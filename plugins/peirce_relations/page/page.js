"use strict";
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent), { relations, attention } = data;
const percent = (share, digits = share < 0.1 ? 1 : 0) => (100 * share).toFixed(digits);
let session, ort, graph, outputs;

async function unpack(id) { // gzip in base64
  const bytes = Uint8Array.from(atob($(id).textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function open() { // from blobs: a page on a disk may fetch no file, and the bundled loader asks for its glue by a path
  const place = async (id, type) => URL.createObjectURL(new Blob([await unpack(id)], { type }));
  ort = await import(await place("api", "text/javascript"));
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = { mjs: await place("glue", "text/javascript"), wasm: await place("wasm", "application/wasm") };
  session = await ort.InferenceSession.create(new Uint8Array(await unpack("model")), { executionProviders: ["wasm"] });
}

function read(text) { // as `peirce relate` reads facts: node names, and relations by [one, other]
  const nodes = [], edges = new Map();
  const place = name => nodes.includes(name) ? nodes.indexOf(name) : nodes.push(name) - 1;
  for (const fact of text.split(/[,;\n]/).map(part => part.trim()).filter(Boolean)) {
    const words = fact.split(/\s+/), [one, label, other] = words;
    if (words.length !== 3) throw Error(`\u201c${fact}\u201d is no fact; write NODE RELATION NODE`);
    if (!relations.includes(label)) throw Error(`${label} is no relation; there are ${relations.join(", ")}`);
    const edge = `${place(one)} ${place(other)}`;
    if (edges.has(edge) && edges.get(edge).label !== label)
      throw Error(`${one} is ${edges.get(edge).label} and ${label} to ${other}; give one relation for each pair`);
    edges.set(edge, { one: place(one), other: place(other), label });
  }
  if (!edges.size) throw Error("There are no facts");
  if (data.kinds > 1 && nodes.length > data.kinds) throw Error(`There are ${nodes.length} nodes, and ${data.kinds} at most`);
  return { nodes, edges: [...edges.values()] };
}

function feeds({ nodes, edges }) {
  const sizes = { batch: 1, length: nodes.length };
  return Object.fromEntries(data.inputs.map(({ name, dims, default: value }) => {
    const shape = dims.map(dim => sizes[dim] ?? dim), count = shape.reduce((product, size) => product * size, 1);
    if (typeof value === "boolean") return [name, new ort.Tensor("bool", new Uint8Array(count).fill(value), shape)];
    const ids = new BigInt64Array(count).fill(BigInt(name === "edge_ids" ? relations.length : value ?? 0));
    if (name === "edge_ids")
      for (const { one, other, label } of edges) ids[one * nodes.length + other] = BigInt(relations.indexOf(label));
    if (name === "input_ids" && data.kinds > 1) ids.forEach((_, i) => ids[i] = BigInt(i));
    return [name, new ort.Tensor("int64", ids, shape)];
  }));
}

function scores(one, other) { // of the pair, with shares, the best first
  const at = (one * graph.nodes.length + other) * relations.length;
  const own = [...outputs.relation_logits.data.subarray(at, at + relations.length)];
  const powers = own.map(score => Math.exp(score - Math.max(...own))), sum = powers.reduce((a, b) => a + b);
  return own.map((score, i) => ({ name: relations[i], score, share: powers[i] / sum })).sort((a, b) => b.score - a.score);
}

async function ask() {
  try {
    $("wrong").textContent = "";
    graph = read($("facts").value);
    const start = performance.now();
    outputs = await session.run(feeds(graph));
    $("found").dataset.took = (performance.now() - start).toFixed(1);
    const kept = [$("one").value, $("other").value];
    fill($("one"), graph.nodes, kept[0]);
    fill($("other"), graph.nodes, graph.nodes.includes(kept[1]) ? kept[1] : graph.nodes.at(-1));
    show();
    if (attention.length) attend();
  } catch (error) {
    $("wrong").textContent = `${error.message ?? error}.`;
  }
}

function show() {
  const [one, other] = [$("one"), $("other")].map(each => graph.nodes.indexOf(each.value)), found = scores(one, other);
  const told = `${graph.nodes[one]} is ${found[0].name} to ${graph.nodes[other]}`;
  $("said").textContent = `${told}, with ${percent(found[0].share)} %. It took ${$("found").dataset.took} ms.`;
  $("scores").replaceChildren(row("tr", "th", ["relation", "score", "%", ""]), ...found.map(({ name, score, share }) => {
    const made = row("tr", "td", ["", "", percent(share)]), bar = made.appendChild(make("td"));
    made.cells[0].replaceWith(make("th", { scope: "row" }, name));
    made.cells[1].append(make("data", { value: score }, score.toFixed(3)));
    bar.className = "bar";
    bar.append(make("div", { style: `width: ${100 * share}%` }));
    return made;
  }));
  matrix($("pairs"), (x, y) => {
    const best = scores(x, y)[0], title = `${graph.nodes[x]} is ${best.name} to ${graph.nodes[y]}: ${percent(best.share)} %`;
    const button = make("button", { type: "button", title, "aria-label": title, "aria-pressed": x === one && y === other },
      best.name);
    button.onclick = () => {
      [$("one").value, $("other").value] = [graph.nodes[x], graph.nodes[y]];
      show();
      $("pairs").rows[x + 1].cells[y + 1].firstChild.focus();
    };
    return [button, best.share];
  });
  draw(one, other, found[0].name);
  $("found").hidden = false;
  history.replaceState(null, "", `#${new URLSearchParams({ facts: $("facts").value, one: $("one").value, other: $("other").value })}`);
}

function attend() {
  const { name } = attention.find(each => each.round == $("round").value && each.of === $("operator").value);
  const { data: values, dims } = outputs[name], heads = dims[3];
  fill($("head"), ["mean", ...Array(heads).keys()].map(head => head === "mean" ? head : `${head + 1}`), $("head").value);
  const head = $("head").value;
  matrix($("weights"), (x, a) => {
    const every = [...values.subarray((x * dims[2] + a) * heads, (x * dims[2] + a + 1) * heads)];
    const share = head === "mean" ? every.reduce((sum, value) => sum + value) / heads : every[head - 1];
    return [make("data", { value: share }, percent(share, 0)), share];
  });
}

function matrix(table, cell) { // nodes by nodes
  const { nodes } = graph;
  table.replaceChildren(row("tr", "th", ["", ...nodes]), ...nodes.map((name, x) => {
    const made = row("tr", "td", nodes.map(() => ""));
    nodes.forEach((_, y) => {
      const [content, share] = cell(x, y);
      made.cells[y].append(content);
      made.cells[y].style.setProperty("--deep", `${40 * share}%`);
    });
    made.prepend(make("th", { scope: "row" }, name));
    return made;
  }));
}

function draw(one, other, answer) {
  const svg = $("graph"), { nodes, edges } = graph, middle = 170, around = nodes.length > 1 ? 125 : 0;
  const place = i => [-Math.cos(2 * Math.PI * i / nodes.length), -Math.sin(2 * Math.PI * i / nodes.length)].map(
    part => middle + around * part);
  svg.setAttribute("viewBox", `0 0 ${2 * middle} ${2 * middle}`);
  const head = make("marker", { id: "head-of-arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7,
    orient: "auto" });
  head.append(make("path", { d: "M0 0L8 4L0 8z" }));
  const lines = [], labels = [];
  for (const edge of [...edges, { one, other, label: `${answer}?`, class: "answer" }]) {
    const [x, y] = place(edge.one), [u, v] = place(edge.other), far = Math.hypot(u - x, v - y) || 1;
    if (edge.one === edge.other) { // said of one node
      labels.push(make("text", { x, y: y + (edge.class ? 42 : 28) }, edge.label));
      continue;
    }
    const bend = edge.class ? -24 : 10, across = [(v - y) / far * bend, (x - u) / far * bend]; // both ways stay apart
    const [c, d] = [(x + u) / 2 + 2 * across[0], (y + v) / 2 + 2 * across[1]], near = (from, to) => {
      const long = Math.hypot(c - from, d - to);
      return [from + (c - from) * 18 / long, to + (d - to) * 18 / long];
    };
    lines.push(make("path", { class: edge.class ?? "", d: `M${near(x, y)}Q${[c, d]} ${near(u, v)}` }));
    labels.push(make("text", { x: (x + u) / 2 + across[0], y: (y + v) / 2 + across[1] }, edge.label));
  }
  const discs = nodes.flatMap((name, i) => {
    const [x, y] = place(i);
    return [make("circle", { cx: x, cy: y, r: 16 }), make("text", { x, y, class: "node" }, name)];
  });
  svg.replaceChildren(head, ...lines, ...discs, ...labels);
}

function make(tag, attributes = {}, text = "") {
  const drawn = ["path", "text", "circle", "marker"].includes(tag);
  const made = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function row(tag, cell, texts) {
  const made = make(tag);
  made.append(...texts.map(text => make(text ? cell : "td", cell === "th" && text ? { scope: "col" } : {}, text)));
  return made;
}

function fill(select, names, kept) {
  select.replaceChildren(...names.map(name => new Option(name)));
  if (names.map(String).includes(kept)) select.value = kept;
}

const asked = new URLSearchParams(location.hash.slice(1));
$("facts").value = asked.get("facts") ?? data.facts;
const pair = asked.has("facts") ? [asked.get("one"), asked.get("other")] : data.pair;
fill($("one"), [pair[0]]);
fill($("other"), [pair[1]]);
$("attention").hidden = !attention.length;
const rounds = [...new Set(attention.map(each => each.round))], operators = [...new Set(attention.map(each => each.of))];
fill($("round"), rounds, `${rounds.at(-1)}`);
fill($("operator"), operators, operators.find(name => name.endsWith("weights")));
$("round").onchange = $("operator").onchange = $("head").onchange = attend;
$("one").onchange = $("other").onchange = show;
$("ask").onsubmit = event => { event.preventDefault(); ask(); };
$("facts").onkeydown = event => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); ask(); } };
try {
  await open();
  document.querySelector("#ask button").disabled = false;
  await ask();
} catch (error) {
  $("said").textContent = `The model does not run in this browser: ${error.message ?? error}`;
}
