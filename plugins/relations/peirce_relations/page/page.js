const { relations } = data;
let graph;

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

function scores(one, other) { // of the pair
  const at = (one * graph.nodes.length + other) * relations.length;
  return ranked(relations, [...outputs[data.scores].data.subarray(at, at + relations.length)]);
}

async function ask() {
  graph = read($("facts").value);
  const { nodes, edges } = graph, ids = Array(nodes.length ** 2).fill(relations.length);
  for (const { one, other, label } of edges) ids[one * nodes.length + other] = relations.indexOf(label);
  await run({ batch: 1, length: nodes.length }, { edge_ids: ids, ...data.kinds > 1 && { input_ids: [...nodes.keys()] } });
  const kept = [$("one").value, $("other").value];
  fill($("one"), nodes, kept[0]);
  fill($("other"), nodes, nodes.includes(kept[1]) ? kept[1] : nodes.at(-1));
  show();
  if (attention.length) attend(nodes);
}

function show() {
  const [one, other] = [$("one"), $("other")].map(each => graph.nodes.indexOf(each.value)), found = scores(one, other);
  const told = `${graph.nodes[one]} is ${found[0].name} to ${graph.nodes[other]}`;
  $("said").textContent = `${told}, with ${percent(found[0].share)} %. It took ${$("found").dataset.took} ms.`;
  list($("scores"), "relation", found);
  matrix($("pairs"), graph.nodes, (x, y) => {
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

$("names").textContent = relations.join(", ");
const asked = new URLSearchParams(location.hash.slice(1));
$("facts").value = asked.get("facts") ?? data.facts;
const pair = asked.has("facts") ? [asked.get("one"), asked.get("other")] : data.pair;
fill($("one"), [pair[0]]);
fill($("other"), [pair[1]]);
$("one").onchange = $("other").onchange = show;
await begin(ask);
