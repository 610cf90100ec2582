"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const form = document.querySelector(".filters");
  const [search, paper, method, found] = ["search", "paper", "method", "found"].map((id) => document.getElementById(id));

  // ---- the filter: every cell, claim, figure, erratum, cost and run is an item

  const words = (element) => element.textContent.toLowerCase();
  const items = all("td.cell, .item").map((element) => {
    const row = element.closest("tr"), table = element.closest("details.table");
    const column = table && all("thead th", element.closest("table"))[element.cellIndex - 1];
    const block = table && element.closest(".scroll").getAttribute("aria-label");
    const around = table ? [words(row.firstElementChild), words(column), block.toLowerCase(), words(table.firstElementChild)] : [];
    return {
      element,
      isCell: element.matches("td.cell"),
      paper: element.closest("[data-paper]")?.dataset.paper,
      methods: element.dataset.methods?.split(" "),
      verdict: element.dataset.verdict,
      text: [words(element), ...around].join(" "),
    };
  });
  const squares = new Map();
  for (const square of all("[data-for]")) squares.set(square.dataset.for, square);

  function filter() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdicts = new Set(all("#verdicts :checked").map((box) => box.value));
    const active = Boolean(wanted.length || paper.value || method.value || verdicts.size);
    let cells = 0, claims = 0;
    for (const item of items) {
      const shown = (!paper.value || item.paper === paper.value)
        && (!method.value || Boolean(item.methods?.includes(method.value)))
        && (!verdicts.size || verdicts.has(item.verdict))
        && wanted.every((word) => item.text.includes(word));
      item.element.classList.toggle(item.isCell ? "dim" : "out", !shown);
      squares.get(item.element.id)?.classList.toggle("dim", !shown);
      if (shown && item.isCell) cells += 1;
      else if (shown && item.verdict) claims += 1;
    }
    for (const row of all("table.cells tbody tr")) row.classList.toggle("out", active && !row.querySelector(".cell:not(.dim)"));
    for (const table of all("details.table")) {
      table.classList.toggle("out", active && !table.querySelector("tbody tr:not(.out)"));
      for (const block of all(".scroll", table)) {
        const empty = active && !block.querySelector("tbody tr:not(.out)");
        block.classList.toggle("out", empty);
        if (block.previousElementSibling?.matches("h4")) block.previousElementSibling.classList.toggle("out", empty);
      }
      for (const folded of all(".folded", table)) folded.classList.toggle("out", active && !folded.querySelector("tbody tr:not(.out)"));
    }
    for (const part of all("[data-paper]")) part.classList.toggle("out", Boolean(paper.value) && part.dataset.paper !== paper.value);
    for (const part of all(".part, section.paper, #runs section"))
      part.classList.toggle("out", active && !part.querySelector(".item:not(.out), details.table:not(.out)"));
    found.value = active ? `${cells.toLocaleString("en")} cells, ${claims} claims` : "";
    document.body.classList.toggle("filtered", active);
  }
  form.hidden = false;
  new ResizeObserver(() => { document.documentElement.style.scrollPaddingTop = `${form.offsetHeight + 16}px`; }).observe(form);
  form.addEventListener("input", filter);
  form.querySelector("[type=reset]").addEventListener("click", (event) => {
    event.preventDefault();
    form.reset();
    filter();
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  // ---- what a cell rests on: a link to it opens it, Escape and × go back to where one was

  let opener = null, followed = false;
  const isOpen = () => document.querySelector(".drawer:target");
  const isTyping = (element) => element.matches("input, select, textarea");
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    if (link.matches(".close") && opener) {
      event.preventDefault();
      history.back();
      return;
    }
    followed = link.hash !== location.hash;
    if (!link.closest(".drawer")) opener = link;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isOpen()) isOpen().querySelector(".close").click();
    else if (event.key === "/" && !isTyping(event.target)) {
      event.preventDefault();
      search.focus();
    }
  });
  function arrive(byLink) {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.matches(".drawer")) target.focus({ preventScroll: true });
    else if (!byLink || !target) opener?.focus({ preventScroll: true });
    else {
      for (let part = target; part; part = part.parentElement) if (part.matches("details")) part.open = true;
      target.scrollIntoView({ block: target.matches(".cell") ? "center" : "start" });
      (target.querySelector("a, summary") ?? target).focus({ preventScroll: true });
    }
  }
  addEventListener("hashchange", () => {
    arrive(followed);
    followed = false;
  });
  if (location.hash) arrive(true);

  // ---- in a map or a table, Tab takes one to it and arrows take one about

  function nearest(links, from, key) {
    const index = links.indexOf(from);
    if (key === "ArrowLeft" || key === "ArrowRight") return links[index + (key === "ArrowRight" ? 1 : -1)];
    const middle = (link) => {
      const box = link.getBoundingClientRect();
      return { x: box.left + box.width / 2, y: Math.round(box.top + box.height / 2) };
    };
    const here = middle(from), sign = key === "ArrowDown" ? 1 : -1;
    const distance = (link) => {
      const there = middle(link), down = sign * (there.y - here.y);
      return down > 4 ? down * 1000 + Math.abs(there.x - here.x) : Infinity;
    };
    const closest = links.reduce((best, link) => (distance(link) < distance(best) ? link : best));
    return distance(closest) < Infinity ? closest : undefined;
  }
  for (const group of all("[data-roving]")) {
    all("a", group).slice(1).forEach((link) => { link.tabIndex = -1; });
    group.addEventListener("keydown", (event) => {
      const from = event.target.closest("a");
      if (!from || !event.key.startsWith("Arrow")) return;
      const to = nearest(all("a", group).filter((link) => link.offsetParent), from, event.key);
      if (!to) return;
      event.preventDefault();
      from.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
  }

  // ---- on paper everything is open

  const opened = [];
  addEventListener("beforeprint", () => {
    for (const part of all("main details:not([open], .runs, .run)")) opened.push(part), part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened.splice(0)) part.open = false;
  });
})();
