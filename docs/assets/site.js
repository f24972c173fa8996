// Sets formulas, and puts a field above each long list that filters its rows or cards.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".arithmatex").forEach((each) => renderMathInElement(each, {
    delimiters: [{ left: "\\[", right: "\\]", display: true }, { left: "\\(", right: "\\)", display: false }],
  }));
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
