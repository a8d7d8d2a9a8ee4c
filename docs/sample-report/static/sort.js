// Sorts tables of class "sortable" by the heading that is clicked; rows without a value stay last either way.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const numbers = head.classList.contains("num");
      const now = head.getAttribute("aria-sort");
      const down = now === "none" ? numbers : now === "ascending";
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[place].dataset.key;
      const rows = [...body.rows].sort((one, other) => {
        const a = key(one), b = key(other);
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = numbers ? Number(a) - Number(b) : a.localeCompare(b);
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
  for (const choice of document.querySelectorAll("select[data-filter]")) {
    const apply = () => {
      for (const row of body.rows) row.hidden = choice.value !== "" && row.dataset[choice.dataset.filter] !== choice.value;
    };
    choice.addEventListener("change", apply);
    apply(); // a browser keeps the choice when it comes back to the page
  }
}
