async function ask() {
  const text = $("query").value, { tokens, inputs } = encoded(text);
  await run({ batch: 1, length: tokens.length }, inputs);
  const found = ranked(data.entities, [...outputs[data.scores].data]);
  $("said").textContent = `${found[0].name} is the best of ${found.length} entities, with ${percent(found[0].share)} %. `
    + `The model read ${tokens.length} tokens in ${$("found").dataset.took} ms: ${tokens.join(" ")}`;
  list($("scores"), "entity", found.slice(0, data.top));
  if (attention.length) attend(tokens);
  $("found").hidden = false;
  history.replaceState(null, "", `#${new URLSearchParams({ query: text })}`);
}

$("names").append(make("b", {}, "Relations: "), data.relations.join(", "), make("br"), make("b", {}, "Entities: "),
  data.entities.join(", "));
$("query").value = new URLSearchParams(location.hash.slice(1)).get("query") ?? data.query;
$("examples").replaceChildren(new Option("choose one", ""), ...Object.entries(data.examples).map(
  ([type, query]) => new Option(`${type}: ${query}`, query)));
$("examples").onchange = () => {
  $("query").value = $("examples").value || $("query").value;
  $("ask").onsubmit();
};
await begin(ask);
