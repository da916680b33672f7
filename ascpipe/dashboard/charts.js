// Charts of the dashboard. Without uPlot, a chart is only the table of its figures.
"use strict";

const HEIGHT = 170;
const TABLE_POINTS = 60;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function color(number) {
  return getComputedStyle(document.documentElement).getPropertyValue("--c" + number % 6).trim();
}

function axis(more) {
  const style = getComputedStyle(document.documentElement);
  const line = style.getPropertyValue("--line").trim();
  return Object.assign({stroke: style.getPropertyValue("--weak").trim(), grid: {stroke: line, width: 1},
                        ticks: {stroke: line, width: 1}}, more);
}

function short(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return (value / limit).toFixed(size >= 100 * limit ? 0 : 1) + unit;
  }
  return Number.isInteger(value) || size >= 100 ? value.toFixed(0) : value.toPrecision(2);
}

const percent = (value) => value === null || value === undefined ? "-" : (100 * value).toFixed(1) + " %";
const clock = (time) => new Date(1000 * time).toLocaleTimeString();

// Line chart of series over time, with a table behind it. `series`: [{name, label, points: whether to draw all points}];
// `format`: value -> text;
// `words`: names of the values of a chart of words, which are then 0, 1, ...
class Chart {
  constructor(parent, title, series, format, words) {
    this.series = series;
    this.format = format;
    this.words = words;
    this.data = [[], ...series.map(() => [])];
    this.title = title;
    this.place = element("div");
    this.body = element("tbody");
    this.details = element("details", {}, element("summary", {}, "Figures of this chart as a table"),
      element("div", {"class": "wide", tabindex: "0", role: "region", "aria-label": title},
        element("table", {}, element("caption", {}, title),
          element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "time"),
            ...series.map((one) => element("th", {scope: "col"}, one.label)))), this.body)));
    this.details.addEventListener("toggle", () => this.fill());
    parent.append(element("figure", {}, element("figcaption", {}, title), this.place, this.details));
    this.draw();
    new ResizeObserver(() => this.plot && this.place.clientWidth &&
      this.plot.setSize({width: this.place.clientWidth, height: HEIGHT})).observe(this.place);
  }

  draw() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (typeof uPlot === "undefined") {
      this.details.open = true;
      return;
    }
    const text = (values) => values.map((value) => this.format(value).replace(".0 %", " %"));
    const y = this.words ? {range: [-0.5, this.words.length - 0.5]} : {range: (plot, low, high) => [0, high > 0 ? 1.1 * high : 1]};
    const splits = this.words ? {splits: () => this.words.map((word, index) => index), size: 92} : {size: 58};
    this.plot = new uPlot({
      width: this.place.clientWidth || 320, height: HEIGHT, scales: {y}, cursor: {y: false},
      axes: [axis(), axis(Object.assign({values: (plot, values) => text(values)}, splits))],
      series: [{label: "time"}, ...this.series.map((one, index) => ({
        label: one.label, stroke: color(index), width: 2, points: {show: this.words || one.points ? true : undefined, size: one.points ? 7 : 3},
        paths: this.words ? uPlot.paths.stepped({align: 1}) : undefined,
        value: (plot, value) => this.format(value)}))],
    }, this.data, this.place);
    this.place.setAttribute("aria-hidden", "true");
  }

  show(times, values) {
    this.data = [times, ...this.series.map((one) => values[one.name])];
    if (this.plot) this.plot.setData(this.data);
    this.fill();
  }

  fill() {
    if (!this.details.open) return;
    const rows = [];
    for (let at = this.data[0].length - 1; at >= Math.max(0, this.data[0].length - TABLE_POINTS); at--) {
      rows.push(element("tr", {}, element("th", {scope: "row"}, clock(this.data[0][at])),
        ...this.data.slice(1).map((column) => element("td", {}, this.format(column[at])))));
    }
    this.body.replaceChildren(...rows);
  }
}

// Picture of the spans of processes. `rows`: [{name, spans: [[start s, duration s, text]]}], times from 0.
class Timeline {
  constructor(place) {
    this.place = place;
    this.rows = [];
    new ResizeObserver(() => this.plot && place.clientWidth &&
      this.plot.setSize({width: place.clientWidth, height: this.height()})).observe(place);
  }

  height() {
    return 60 + 34 * this.rows.length;
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (typeof uPlot === "undefined" || !this.rows.length) return;
    this.end = Math.max(1e-3, ...this.rows.map((row) => row.spans.reduce((end, span) => Math.max(end, span[0] + span[1]), 0)));
    const names = this.rows.map((row) => row.name);
    this.plot = new uPlot({
      width: this.place.clientWidth || 320, height: this.height(), legend: {show: false}, cursor: {y: false},
      scales: {x: {time: false, range: (plot, low, high) => [low, high]}, y: {range: [-0.5, names.length - 0.5]}},
      axes: [axis({space: 80, values: (plot, values) => values.map((value) => (1000 * value).toFixed(this.span() < 0.05 ? 1 : 0) + " ms")}),
             axis({size: 110, splits: () => names.map((name, at) => at),
                   values: (plot, values) => values.map((value) => names[names.length - 1 - value])})],
      series: [{}, {}], hooks: {draw: [(plot) => this.paint(plot)]},
    }, [[0, this.end], [null, null]], this.place);
    this.place.setAttribute("aria-hidden", "true");
  }

  span() {
    return this.plot ? this.plot.scales.x.max - this.plot.scales.x.min : this.end;
  }

  paint(plot) {
    const context = plot.ctx;
    const {left, top, width, height} = plot.bbox;
    const ratio = window.devicePixelRatio || 1;
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.font = 11 * ratio + "px system-ui, sans-serif";
    context.textBaseline = "middle";
    const back = getComputedStyle(document.documentElement).getPropertyValue("--back").trim();
    this.rows.forEach((row, at) => {
      const middle = plot.valToPos(this.rows.length - 1 - at, "y", true);
      const half = 11 * ratio;
      for (const [start, duration, text] of row.spans) {
        const x = plot.valToPos(start, "x", true);
        const wide = Math.max(1, plot.valToPos(start + duration, "x", true) - x);
        if (x + wide < left || x > left + width) continue;
        context.fillStyle = color(at);
        context.fillRect(x, middle - half, wide, 2 * half);
        if (wide > context.measureText(text).width + 6) {
          context.fillStyle = back;
          context.fillText(text, Math.max(x, left) + 3, middle);
        }
      }
    });
    context.restore();
  }

  // Multiply the visible time by `factor`, and move it by `shift` times the visible time.
  zoom(factor, shift) {
    if (!this.plot) return;
    const {min, max} = this.plot.scales.x;
    const middle = (min + max) / 2 + shift * (max - min);
    const half = Math.min(this.end, Math.max(1e-5, factor * (max - min))) / 2;
    const begin = Math.min(Math.max(0, middle - half), this.end - 2 * half);
    this.plot.setScale("x", {min: begin, max: begin + 2 * half});
  }

  all() {
    if (this.plot) this.plot.setScale("x", {min: 0, max: this.end});
  }
}
