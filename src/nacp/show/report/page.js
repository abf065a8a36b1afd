"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];

  const slider = byId("alpha");
  const show = () => {
    const step = data.steps[slider.value];
    for (const [name, text] of Object.entries(step.texts)) {
      all(`[data-text="${name}"]`).forEach((place) => { place.textContent = text; });
    }
    slider.setAttribute("aria-valuetext", step.texts.spoken);
    for (const [name, place] of Object.entries(step.marks)) {
      all(`[data-mark="${name}"]`).forEach((mark) => {
        mark.hidden = !place;
        Object.assign(mark.style, place);
      });
    }
    all("[data-sample]").forEach((sample) => {
      const size = step.samples[sample.dataset.sample];
      all(".set li", sample).forEach((label, i) => label.classList.toggle("out", i >= size));
    });
  };
  slider.addEventListener("input", show);
  show();

  // The values under the pointer.
  const make = (tag, name, text = "") => {
    const made = document.createElement(tag);
    made.className = name;
    made.textContent = text;
    return made;
  };
  for (const plot of all("[data-plot]")) {
    const { at, stepped, heads, lines } = data.plots[plot.dataset.plot];
    const hair = plot.appendChild(make("i", "hair"));
    const box = plot.appendChild(make("div", "values"));
    hair.hidden = box.hidden = true;
    const point = (event) => {
      const frame = plot.getBoundingClientRect();
      const x = (event.clientX - frame.left) / frame.width;
      let i = at.findLastIndex((place) => place <= x);
      if (!stepped && i + 1 < at.length && at[i + 1] - x < x - (at[i] ?? -1)) i += 1;
      i = Math.max(i, 0);
      const place = stepped ? Math.min(Math.max(x, 0), 1) : at[i];
      hair.style.left = `${100 * place}%`;
      box.replaceChildren(make("b", "", heads[i]), ...lines.map(({ name, look, texts }) => {
        const row = make("span", look, name);
        row.append(make("b", "", texts[i]));
        return row;
      }));
      box.style[place > 0.5 ? "right" : "left"] = `calc(${100 * (place > 0.5 ? 1 - place : place)}% + .6rem)`;
      box.style[place > 0.5 ? "left" : "right"] = "auto";
      hair.hidden = box.hidden = false;
    };
    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", () => { hair.hidden = box.hidden = true; });
  }

  const search = byId("search");
  const rows = all("#classes tbody tr");
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    let found = 0;
    for (const row of rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      found += !row.hidden;
    }
    byId("found").textContent = wanted ? `${found} of ${rows.length} classes` : "";
  };
  search.addEventListener("input", find);
})();
