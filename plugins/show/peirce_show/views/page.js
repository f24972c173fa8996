const views = data;
const number = value => Number(value.toPrecision(4)).toString().replace("-", "\u2212");
let cell = { row: 0, column: -1 };

function numbers(matrix) { // float32, [channels, rows, columns]
  if (!matrix.read) {
    const bytes = Uint8Array.from(atob(matrix.values), letter => letter.charCodeAt(0));
    matrix.read = new Float32Array(bytes.buffer);
  }
  return matrix.read;
}

function channel(matrix) {
  const size = matrix.rows.length * matrix.columns.length;
  const at = Math.max(0, matrix.channels.indexOf($("channel").value));
  return numbers(matrix).subarray(at * size, (at + 1) * size);
}

const largest = values => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
const layers = () => views[$("view").value].matrices.filter(each => each.title === $("title").value);
const chosen = () => layers()[$("layer").value];

function choose() { // after another view or matrix is chosen
  const titles = [...new Set(views[$("view").value].matrices.map(each => each.title))];
  const first = titles.find(title => title.endsWith(".weights")) ?? titles[0];
  fill($("title"), titles, $("title").value || first);
  const kept = $("layer-name").textContent, all = layers();
  const place = all.findIndex(each => `${each.layer}` === kept);
  $("layer").max = all.length - 1;
  $("layer").value = place < 0 ? all.length - 1 : place;
  $("pick-layer").hidden = all.length < 2;
  draw();
}

function draw() {
  const matrix = chosen(), { rows, columns, axes, share } = matrix;
  $("layer-name").textContent = matrix.layer;
  fill($("channel"), matrix.channels, $("channel").value);
  $("pick-channel").hidden = matrix.channels.length < 2;
  const values = channel(matrix);
  const most = $("rescale").checked ? largest(values) : Math.max(...layers().map(each => largest(channel(each))));
  const side = Math.max(7, Math.min(28, 760 / Math.max(rows.length, columns.length)));
  const left = 34 + 7.5 * Math.max(...rows.map(text => text.length));
  const above = 16 + 7.5 * Math.max(...columns.map(text => text.length));
  const wide = side * columns.length, high = side * rows.length;
  const svg = make("svg", { width: left + wide + 110, height: above + high + 26, tabindex: 0, role: "img",
    "aria-label": `${matrix.title}, layer ${matrix.layer}: ${axes[0]} by ${axes[1]}` });
  const size = Math.min(12, side * 0.95);
  const label = (text, x, y, turn, anchor) => svg.append(make("text", { x, y, "text-anchor": anchor,
    "dominant-baseline": "central", style: `font-size:${size}px`, transform: `rotate(${turn} ${x} ${y})` }, text));
  rows.forEach((text, y) => label(text, left - 5, above + side * (y + 0.5), 0, "end"));
  columns.forEach((text, x) => label(text, left + side * (x + 0.5), above - 5, -90, "start"));
  const marks = [...svg.children];
  svg.append(make("text", { class: "muted", x: 10, y: above + high / 2, "text-anchor": "middle",
    transform: `rotate(-90 10 ${above + high / 2})` }, `${axes[0]} (rows)`));
  svg.append(make("text", { class: "muted", x: left + wide / 2, y: above + high + 18, "text-anchor": "middle" },
    `${axes[1]} (columns)`));
  const degree = value => ({ class: value < 0 ? "under" : "above", "fill-opacity": most ? Math.abs(value) / most : 0 });
  values.forEach((value, at) => {
    const x = at % columns.length, y = Math.floor(at / columns.length);
    svg.append(make("rect", { x: left + side * x, y: above + side * y, width: side, height: side, ...degree(value) }));
  });
  svg.append(make("rect", { class: "frame", x: left, y: above, width: wide, height: high }));
  bar(svg, left + wide + 14, above, Math.min(Math.max(high, 60), 220), share, most, degree);
  const across = make("rect", { class: "band", x: left, width: wide, height: side });
  const down = make("rect", { class: "band", y: above, width: side, height: high });
  svg.append(across, down);

  function point() {
    const { row, column } = cell;
    across.setAttribute("y", above + side * row);
    down.setAttribute("x", left + side * column);
    down.style.display = column < 0 ? "none" : "";
    marks.forEach((mark, i) => mark.classList.toggle("chosen", i === row || (column >= 0 && i - rows.length === column)));
    tell(matrix, values, degree, point);
  }
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / side);
    const row = Math.floor((event.clientY - box.top - above) / side);
    if (row < 0 || row >= rows.length || column >= columns.length) return;
    cell = { row, column: Math.max(column, -1) };
    point();
  });
  svg.addEventListener("keydown", event => {
    const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const within = (value, most) => Math.max(0, Math.min(most - 1, value));
    cell = { row: within(cell.row + way[0], rows.length), column: within(cell.column + way[1], columns.length) };
    point();
  });
  cell = { row: Math.min(cell.row, rows.length - 1), column: Math.min(cell.column, columns.length - 1) };
  $("stage").replaceChildren(svg);
  point();
}

function tell(matrix, values, degree, point) { // the chosen cell in words, and its row as a line of coloured columns
  const { rows, columns } = matrix, width = columns.length, row = cell.row;
  const line = [...values.subarray(row * width, (row + 1) * width)];
  const parts = cell.column < 0 ? [`row ${rows[row]}`] : [];
  const strongest = line.map((value, i) => [value, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 4);
  const text = strongest.map(([value, i]) => `${columns[i]} ${number(value)}`).join(", ");
  const bold = document.createElement("b");
  if (cell.column >= 0) bold.textContent = number(line[cell.column]);
  const pair = cell.column < 0 ? `${rows[row]}` : `${rows[row]} \u2192 ${columns[cell.column]}: `;
  $("readout").replaceChildren(pair, bold, `  \u2014 strongest in this row: ${text}`);
  $("strip").replaceChildren(...line.map((value, i) => {
    const span = document.createElement("span"), { class: name, "fill-opacity": depth } = degree(value);
    const role = name === "above" ? "unary" : "binary";
    span.style.background = `color-mix(in srgb, var(--${role}) ${Math.round(60 * depth)}%, transparent)`;
    span.textContent = columns[i];
    span.title = number(value);
    if (rows.length === width && i === row) span.className = "row";
    span.onclick = () => {
      if (rows.length === width) { cell = { row: i, column: -1 }; point(); }
    };
    return span;
  }).flatMap(span => [span, " "]));
}

function bar(svg, x, y, height, share, most, degree) {
  const steps = 40, least = share ? 0 : -most;
  for (let i = 0; i < steps; i++) {
    const value = most - (most - least) * (i + 0.5) / steps;
    svg.append(make("rect", { x, y: y + height * i / steps, width: 12, height: height / steps + 0.3, ...degree(value) }));
  }
  svg.append(make("rect", { class: "frame", x, y, width: 12, height }));
  const places = share ? [[most, 0], [0, 1]] : [[most, 0], [0, 0.5], [-most, 1]];
  for (const [value, place] of places)
    svg.append(make("text", { x: x + 18, y: y + 4 + (height - 8) * place, "dominant-baseline": "central" }, number(value)));
}

fill($("view"), views.map(view => view.name), "0", [...views.keys()]);
$("pick-view").hidden = views.length < 2;
$("view").onchange = $("title").onchange = choose;
$("layer").oninput = $("channel").onchange = $("rescale").onchange = draw;
choose();
