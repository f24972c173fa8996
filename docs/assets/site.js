// Sets formulas, keeps words of code whole, and puts a field above each long list that filters its rows or cards.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".arithmatex").forEach((each) => renderMathInElement(each, {
    delimiters: [{ left: "\\[", right: "\\]", display: true }, { left: "\\(", right: "\\)", display: false }],
  }));
  // A browser breaks a line after a hyphen: --set in two, or a name. Words that a narrow screen has no room for may break.
  document.querySelectorAll(".md-typeset code").forEach((code) => {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), nodes = [];
    while (texts.nextNode()) if (/-\S/.test(texts.currentNode.data)) nodes.push(texts.currentNode);
    for (const node of nodes) {
      node.replaceWith(...node.data.split(/(\S*-\S+)/).map((word, odd) => {
        if (odd % 2 === 0 || word.length > 30) return word;
        return Object.assign(document.createElement("span"), { className: "whole", textContent: word });
      }));
    }
  });
  document.querySelectorAll(".filterable").forEach((list) => {
    const entries = [...list.querySelectorAll("tbody tr, .grid > ul > li")];
    if (entries.length < 8) return;
    const field = document.createElement("input");
    Object.assign(field, { className: "filter", type: "search", placeholder: "Filter this list" });
    field.setAttribute("aria-label", "Filter this list");
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const entry of entries) {
        entry.hidden = !words.every((word) => entry.textContent.toLowerCase().includes(word));
      }
    });
    list.prepend(field);
  });
});
