"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const colours = (layout, ink, line, card) => ({
    "font.color": ink,
    ...Object.fromEntries(["xaxis", "yaxis", "xaxis2", "yaxis2"].filter((axis) => axis in layout).flatMap(
      (axis) => [[`${axis}.linecolor`, line], [`${axis}.gridcolor`, line]])),
    "hoverlabel.bgcolor": card, "hoverlabel.font.color": ink,
  });
  const charts = Object.keys(data.charts);
  for (const id of charts) {
    Plotly.newPlot(byId(id), data.charts[id].data, data.charts[id].layout, { responsive: true, displayModeBar: false });
  }
  const dye = (...tones) => charts.forEach((id) => Plotly.relayout(byId(id), colours(byId(id).layout, ...tones)));
  const paint = () => dye(style("--ink"), style("--line"), style("--card"));
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  // Paper is narrower than most windows, and does not scroll.
  const widen = (size) => charts.forEach((id) => Plotly.relayout(byId(id), size));
  addEventListener("beforeprint", () => { dye("#000", "#bbb", "#fff"); widen({ autosize: false, width: 620 }); });
  addEventListener("afterprint", () => { paint(); widen({ autosize: true, width: null }); });

  const slider = byId("alpha");
  const show = () => {
    const step = data.steps[slider.value];
    for (const [name, text] of Object.entries(step.texts)) {
      document.querySelectorAll(`[data-text="${name}"]`).forEach((place) => { place.textContent = text; });
    }
    slider.setAttribute("aria-valuetext", step.texts.spoken);
    Plotly.relayout(byId("coverage-chart"), {
      "shapes[0].y0": step.asked, "shapes[0].y1": step.asked, "shapes[1].x0": step.at, "shapes[1].x1": step.at,
    });
    Plotly.restyle(byId("tradeoff-chart"), { x: [[step.asked]], y: [[step.size]] }, [1]);
    Plotly.restyle(byId("sizes-chart"), { y: [step.histogram] });
    document.querySelectorAll("[data-sample]").forEach((sample) => {
      const size = step.samples[sample.dataset.sample];
      const labels = sample.querySelectorAll(".set li");
      labels.forEach((label, i) => label.classList.toggle("out", i >= size));
      sample.querySelector(".size").textContent = size === 1 ? "1 label" : `${size} labels`;
      const more = Math.max(0, size - labels.length);
      const missing = sample.querySelector(".missing");
      if (missing) missing.hidden = size > missing.dataset.place;
      sample.querySelector(".more").textContent = more ? `and ${more} more` : "";
    });
  };
  slider.addEventListener("input", show);
  show();

  const search = byId("search");
  const rows = [...document.querySelectorAll("#classes tbody tr")];
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
