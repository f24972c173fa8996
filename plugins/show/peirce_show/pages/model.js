const { attention } = data;
const percent = (share, digits = share < 0.1 ? 1 : 0) => (100 * share).toFixed(digits);
let session, ort, outputs, attending = [];

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

async function run(sizes, given) { // inputs by name; those that are not given are their default everywhere
  const feeds = Object.fromEntries(data.inputs.map(({ name, dims, dtype, default: value }) => {
    const shape = dims.map(dim => sizes[dim] ?? dim), count = shape.reduce((product, size) => product * size, 1);
    const values = given[name] ?? Array(count).fill(value ?? 0);
    return [name, new ort.Tensor(dtype, dtype === "bool" ? Uint8Array.from(values) : BigInt64Array.from(values, BigInt), shape)];
  }));
  const start = performance.now();
  outputs = await session.run(feeds);
  $("found").dataset.took = (performance.now() - start).toFixed(1);
}

function ranked(names, scores) { // the best first, with their shares of a softmax
  const most = scores.reduce((one, other) => Math.max(one, other)), powers = scores.map(score => Math.exp(score - most));
  const sum = powers.reduce((one, other) => one + other);
  return scores.map((score, i) => ({ name: names[i], score, share: powers[i] / sum })).sort((a, b) => b.score - a.score);
}

function list(table, noun, found) { // what was ranked
  table.replaceChildren(row("tr", "th", [noun, "score", "%", ""]), ...found.map(({ name, score, share }) => {
    const line = row("tr", "td", ["", "", percent(share)]), bar = line.appendChild(make("td"));
    line.cells[0].replaceWith(make("th", { scope: "row" }, name));
    line.cells[1].append(make("data", { value: score }, score.toFixed(3)));
    bar.className = "bar";
    bar.append(make("div", { style: `width: ${100 * share}%` }));
    return line;
  }));
}

function attend(names = attending) { // of what the columns and rows stand for
  attending = names;
  const { name } = attention.find(each => each.round == $("round").value && each.of === $("operator").value);
  const { data: values, dims } = outputs[name], heads = dims[3];
  fill($("head"), ["mean", ...Array(heads).keys()].map(head => head === "mean" ? head : `${head + 1}`), $("head").value);
  const head = $("head").value;
  matrix($("weights"), names, (x, a) => {
    const every = [...values.subarray((x * dims[2] + a) * heads, (x * dims[2] + a + 1) * heads)];
    const share = head === "mean" ? every.reduce((sum, value) => sum + value) / heads : every[head - 1];
    return [make("data", { value: share }, percent(share, 0)), share];
  });
  $("attention").hidden = false;
}

function matrix(table, names, cell) {
  table.replaceChildren(row("tr", "th", ["", ...names]), ...names.map((name, x) => {
    const line = row("tr", "td", names.map(() => ""));
    names.forEach((_, y) => {
      const [content, share] = cell(x, y);
      line.cells[y].append(content);
      line.cells[y].style.setProperty("--deep", `${40 * share}%`);
    });
    line.prepend(make("th", { scope: "row" }, name));
    return line;
  }));
}

function row(tag, cell, texts) {
  const line = make(tag);
  line.append(...texts.map(text => make(text ? cell : "td", cell === "th" && text ? { scope: "col" } : {}, text)));
  return line;
}

async function begin(ask) { // open the model, and ask what the form says, now and whenever it is sent
  const rounds = [...new Set(attention.map(each => each.round))], operators = [...new Set(attention.map(each => each.of))];
  fill($("round"), rounds, `${rounds.at(-1)}`);
  fill($("operator"), operators, operators.find(name => name.endsWith("weights")));
  $("round").onchange = $("operator").onchange = $("head").onchange = () => attend();
  $("ask").onsubmit = async event => {
    event?.preventDefault();
    try {
      $("wrong").textContent = "";
      await ask();
    } catch (error) {
      $("wrong").textContent = `${error.message ?? error}.`;
    }
  };
  document.querySelector("#ask textarea").onkeydown = event => {
    if (event.key === "Enter" && !event.shiftKey) $("ask").onsubmit(event);
  };
  try {
    await open();
    document.querySelector("#ask button").disabled = false;
    $("said").textContent = "";
    await $("ask").onsubmit();
  } catch (error) {
    $("said").textContent = `The model does not run in this browser: ${error.message ?? error}`;
  }
}
