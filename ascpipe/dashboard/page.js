// Main script of the dashboard page. It shows the events of the server, and requests more data when the user opens it.
"use strict";

const token = new URLSearchParams(location.search).get("token") || "";
const POINTS = 1800;
const state = {last: null, history: null, early: [], table: null, tableHistory: null, charts: [],
               tableCharts: []};

// ---- data

async function fetched(path, parameters) {
  const query = new URLSearchParams(Object.assign({token}, parameters));
  for (let attempt = 0; attempt < 200; attempt++) {
    const answer = await fetch(path + "?" + query, {cache: "no-store"});
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const found = await answer.json();
    if (answer.status !== 202) {
      if (found && found.error) throw new Error(found.error);
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  throw new Error("The server did not answer in time.");
}

function addPoint(history, time, point, word) {
  if (history.time.length && time <= history.time[history.time.length - 1]) return;
  const drop = Math.max(0, history.time.length + 1 - POINTS);
  history.time = [...history.time.slice(drop), time];
  if (history.bottleneck) history.bottleneck = [...history.bottleneck.slice(drop), word];
  for (const name of Object.keys(history.series)) {
    const value = point[name];
    history.series[name] = [...history.series[name].slice(drop), value === undefined ? null : value];
  }
}

// ---- one table

async function openTable(name) {
  state.table = name;
  state.tableHistory = null;
  byId("detail").hidden = false;
  byId("h-detail").textContent = "Table " + name;
  byId("h-detail").focus();
  byId("table-charts").replaceChildren();
  state.tableCharts = [
    new Chart(byId("table-charts"), "Ids and rows swapped in, per second", [{name: "ids", label: "ids/s"},
      {name: "rows_in", label: "in/s"}], short),
    new Chart(byId("table-charts"), "Device hits", [{name: "device_hit_rate", label: "device hits"}], percent),
    new Chart(byId("table-charts"), "Keys", [{name: "keys", label: "keys"}], short)];
  readHotKeys(name);
  const found = await fetched("history", {table: name}).catch(() => null);
  if (state.table !== name || !found) return;
  state.tableHistory = found;
  for (const chart of state.tableCharts) chart.show(found.time, found.series);
}

async function readHotKeys(name) {
  byId("hot-text").textContent = "Reading the keys of table " + name + ".";
  try {
    const found = await fetched("hotkeys", {table: name});
    if (state.table !== name) return;
    byId("hot-text").textContent = found.by === "counts" ? "By the number of occurrences that the table has counted." :
      "By a sample of " + found.batches + " batches within " + found.seconds + " s.";
    fill("hot-table", "Hot keys", [
      ["key", (one) => String(one.key)], ["count", (one) => whole(one.count)],
      ["share", (one) => (100 * one.count / Math.max(1, found.occurrences)).toFixed(2) + " %"],
    ], found.keys, (one) => String(one.key));
  } catch (error) {
    if (state.table === name) byId("hot-text").textContent = error.message;
  }
}

// ---- timeline

const timeline = new Timeline(byId("timeline-chart"));

async function readTimeline() {
  const text = byId("timeline-text");
  text.textContent = "Reading the last steps.";
  try {
    const {traceEvents} = await fetched("timeline");
    const rows = new Map();
    for (const event of traceEvents) {
      if (event.ph === "M" && event.name === "process_name") {
        rows.set(event.pid, {name: event.args.name.replace("ascpipe ", ""), spans: []});
      }
    }
    const spans = traceEvents.filter((event) => event.ph === "X" && rows.has(event.pid));
    const begin = spans.reduce((first, event) => Math.min(first, event.ts), Infinity);
    for (const event of spans) rows.get(event.pid).spans.push([(event.ts - begin) / 1e6, event.dur / 1e6, event.name]);
    const found = [...rows.values()];
    timeline.show(found);
    showWaits(spans, begin);
    const end = found.reduce((last, row) => row.spans.reduce((so, one) => Math.max(so, one[0] + one[1]), last), 0);
    text.textContent = "The activity of workers and ranks in the last " + end.toFixed(1) + " s. Numbers are batches. Drag to zoom.";
    fill("timeline-table", "Activity in this time", [
      ["process", (row) => row.name], ["intervals", (row) => whole(row.spans.length)],
      ["busy", (row) => (1000 * row.spans.reduce((sum, one) => sum + one[1], 0)).toFixed(1) + " ms"],
      ["longest", (row) => (1000 * row.spans.reduce((most, one) => Math.max(most, one[1]), 0)).toFixed(2) + " ms"],
      ["last", (row) => row.spans.length ? row.spans[row.spans.length - 1][2] : "-", true],
    ], found, (row) => row.name);
  } catch (error) {
    text.textContent = error.message;
  }
}

// ---- start

function charts() {
  const place = byId("overview-charts");
  const index = (value) => value === null || value === undefined ? "-" : WORDS[value] || "-";
  state.charts = [
    new Chart(place, "Steps per second", [{name: "steps", label: "steps/s"}], short),
    new Chart(place, "Ids per second", [{name: "ids", label: "ids/s"}], short),
    new Chart(place, "Records per second", [{name: "records", label: "records/s"}], short),
    new Chart(place, "Bottleneck", [{name: "words", label: "bottleneck"}], index, WORDS),
    new Chart(place, "Shares", [{name: "step_waits", label: "step waits"}, {name: "device_hit_rate", label: "device hits"},
      {name: "host_hit_rate", label: "host hits"}], percent),
    new Chart(place, "Rows moved per second", [{name: "rows_in", label: "in"}, {name: "rows_out", label: "out"},
      {name: "rows_read", label: "read"}, {name: "rows_written", label: "written"}], short),
    new Chart(place, "Batches ready", [{name: "depth", label: "batches"}], short)];
  saveCharts();
}

// Add a point to the charts. Points that arrive before the history are kept until it is there.
function keep(time, point, word) {
  if (state.history === null) {
    state.early.push([time, point, word]);
    return;
  }
  addPoint(state.history, time, point, word);
  showHistory();
}

function begin(history) {
  state.history = history;
  for (const point of state.early) addPoint(history, ...point);
  state.early = [];
  showHistory();
}

function showHistory() {
  const {time, series, bottleneck} = state.history;
  const words = bottleneck.map((word) => word ? Math.max(0, WORDS.indexOf(word)) : null);
  for (const chart of state.charts) chart.show(time, Object.assign({words}, series));
}

function show(told) {
  byId("foot").textContent = "Updated " + clock(told.time) + ". The page shows the figures of ascpipe status, stats and top.";
  byId("state").className = told.silent ? "silent" : "";
  if (told.silent) {
    byId("state").textContent = told.silent;
    keep(told.time, {}, "");
    return;
  }
  const isFirst = state.last === null;
  state.last = told;
  const {status} = told;
  document.title = "ascpipe " + status.name;
  byId("name").textContent = status.name;
  byId("state").textContent = status.state + ", pid " + status.pid + ", version " + status.version +
    (status.trainer ? ", trainer " + status.trainer.pid : ", no trainer");
  if (byId("bottleneck").textContent !== told.rates.bottleneck) byId("bottleneck").textContent = told.rates.bottleneck;
  byId("bottleneck").title = told.limit;
  for (const panel of [showOverview, showWarnings, showTables, showWorkers, showRanks, showCheckpoints]) panel(told);
  keep(told.time, told.point, told.rates.bottleneck);
  const mine = told.rates.tables.find((one) => one.table === state.table);
  if (state.tableHistory && mine) {
    const keys = status.tables.find((one) => one.name === state.table).keys;
    addPoint(state.tableHistory, told.time, Object.assign({keys}, mine), "");
    for (const chart of state.tableCharts) chart.show(state.tableHistory.time, state.tableHistory.series);
  }
  if (isFirst) {
    performance.mark("figures"); // the bench measures the time until here
    readTimeline();
  }
}

async function start() {
  charts();
  for (const [id, press] of [
    ["timeline-read", readTimeline], ["zoom-in", () => timeline.zoom(0.5, 0)], ["zoom-out", () => timeline.zoom(2, 0)],
    ["earlier", () => timeline.zoom(1, -0.5)], ["later", () => timeline.zoom(1, 0.5)], ["zoom-all", () => timeline.all()],
    ["hot-again", () => readHotKeys(state.table)], ["waits-read", readTimeline]]) byId(id).addEventListener("click", press);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of [...state.charts, ...state.tableCharts, ...ranks.charts, ...checkpoints.charts, timeline]) chart.draw();
  });
  const events = new EventSource("events?" + new URLSearchParams({token}));
  events.onmessage = (event) => show(JSON.parse(event.data));
  events.onerror = () => {
    byId("state").className = "silent";
    byId("state").textContent = "The connection to the dashboard is lost. The page tries again.";
  };
  try {
    begin(await fetched("history")); // beside the events, so that the first figures do not wait for it
  } catch (error) {
    events.close();
    byId("state").textContent = error.message;
    return;
  }
}

start();
