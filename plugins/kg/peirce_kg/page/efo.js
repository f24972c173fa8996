// A query in EFO syntax: read as queries/grammar.lark says, and written as encoding/writing.py writes it for a model.
const LEXEME = /([^\s(),&|!"'\\]+)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|([(),&|!])|[^ \t\f\r\n]/g;
const ESCAPES = { "\\": "\\", "\"": "\"", "'": "'", n: "\n", r: "\r", t: "\t" };

function readQuery(text) { // a formula: { relation, ends } or { sign, operands }
  const lexemes = [...text.matchAll(LEXEME)], ends = [];
  const wrong = wanted => {
    const [found] = lexemes;
    throw Error(found ? `Column ${found.index + 1}: \u201c${found[0]}\u201d cannot stand here; expected ${wanted}`
      : `The query ends where ${wanted} is expected`);
  };
  const is = sign => lexemes[0]?.[3] === sign && lexemes.shift();
  const take = sign => is(sign) || wrong(`\u201c${sign}\u201d`);
  const name = () => {
    const [, bare, quoted] = lexemes[0] ?? [];
    if (!(bare || quoted?.length > 2)) wrong("a name");
    const said = bare ?? quoted.slice(1, -1).replace(/\\(.)/g, (_, letter) => ESCAPES[letter] ?? wrong("another escape"));
    lexemes.shift();
    return { name: said, variable: Boolean(bare) && /^(f[12]?|e[1-9][0-9]*)$/.test(bare) };
  };
  const end = () => ends[ends.push(name()) - 1];
  const unary = () => {
    if (is("!")) return { sign: "!", operands: [unary()] };
    if (is("(")) {
      const inner = formula();
      take(")");
      return inner;
    }
    const { name: relation } = name();
    take("(");
    const head = end();
    take(",");
    const tail = end();
    take(")");
    return { relation, ends: [head, tail] };
  };
  const chain = (sign, operand) => {
    const operands = [operand()];
    while (is(sign)) operands.push(operand());
    return operands.length > 1 ? { sign, operands } : operands[0];
  };
  const formula = () => chain("|", () => chain("&", unary)), whole = formula();
  if (lexemes.length) wrong("&, | or the end");
  const called = name => ends.filter(each => each.variable && each.name === name);
  if (called("f").length) ["f1", "f2"].flatMap(called).forEach(each => each.variable = false); // then they are entities
  else if (called("f1").length && called("f2").length) throw Error("f1 and f2 ask for pairs; ask for f alone");
  else if (called("f1").length) called("f1").forEach(each => each.name = "f");
  else throw Error("The free variable f, which stands for the answer, does not occur");
  return whole;
}

function number(noun, name, names) { // of a name
  const found = names.indexOf(name);
  if (found >= 0) return found;
  const pairs = word => new Set([...word].map((letter, i) => letter + (word[i + 1] ?? ""))), own = pairs(name);
  const alike = Object.fromEntries(names.map(other => {
    const its = pairs(other);
    return [other, [...its].filter(pair => own.has(pair)).length / (own.size + its.size)];
  }));
  const near = [...names].sort((one, other) => alike[other] - alike[one]).slice(0, 3);
  throw Error(`\u201c${name}\u201d is no ${noun}; near it are ${near.join(", ")}`);
}

function* written({ sign, operands, relation, ends }) { // its tokens: [kind, text, id]
  const symbol = (kind, text) => [kind, text, data.symbols.indexOf(text)];
  if (ends) {
    yield ["relation", relation, data.first_relation + number("relation", relation, data.relations)];
    yield symbol("parenthesis", "(");
    for (const { name, variable } of ends) {
      const place = variable ? Number(name.slice(1)) : number("entity", name, data.entities);
      if (variable && place > data.existentials) throw Error(`${name} is too many; there are e1 to e${data.existentials}`);
      yield ["entity", name, place + (variable ? data.free : data.first_entity)];
    }
    yield symbol("parenthesis", ")");
    return;
  }
  for (const [place, operand] of operands.entries()) {
    if (sign === "!") yield symbol("negation", sign);
    else if (place) yield symbol(sign === "&" ? "conjunction" : "disjunction", sign);
    yield symbol("parenthesis", "(");
    yield* written(operand);
    yield symbol("parenthesis", ")");
  }
}

function encoded(text) { // the tokens of a query, and the model's inputs
  const tokens = [...written(readQuery(text))];
  if (tokens.length > data.longest)
    throw Error(`The query has ${tokens.length} tokens, and the model reads at most ${data.longest}; ask a shorter one`);
  return {
    tokens: tokens.map(([, said]) => said),
    inputs: { input_ids: tokens.map(([, , id]) => id), token_kinds: tokens.map(([kind]) => data.kinds.indexOf(kind)) },
  };
}
