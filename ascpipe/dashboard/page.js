// The page of the dashboard: it shows the events of the server, and asks for more when a reader wants to see it.
"use strict";

const token = new URLSearchParams(location.search).get("token") || "";
const POINTS = 1800;
const WORDS = ["-", "step", "input", "key worker", "table worker", "disk", "peer"];
const MIB = 1 << 20;
const byId = (id) => document.getElementById(id);
const whole = (value) => value === null || value === undefined ? "-" : Number(value).toLocaleString("en-US");
const rounded = (value) => value === null || value === undefined ? "-" : whole(Math.round(value));
const mib = (value) => (value / MIB).toLocaleString("en-US", {minimumFractionDigits: 1, maximumFractionDigits: 1});
const seconds = (value) => value === null || value === undefined ? "-" : value.toFixed(1) + " s";

const state = {last: null, history: {time: [], bottleneck: [], series: {}}, table: null, tableHistory: null, saves: "",
               checkpoints: [], verified: {}, charts: [], tableCharts: []};

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

// ---- tables: rows are kept, and only cells that changed are written, so that focus and selection stay

// `columns`: [[title, row -> text or element, is text]]; `key`: row -> text. The first column names the row.
function fill(id, caption, columns, rows, key) {
  const table = byId(id);
  table.parentElement.hidden = rows.length === 0;
  if (!table.tHead) {
    table.append(element("caption", {}, caption), element("thead", {}, element("tr", {}, ...columns.map(([title, , isText]) =>
      element("th", isText ? {scope: "col", "class": "text"} : {scope: "col"}, title)))), element("tbody"));
    table.kept = new Map();
  }
  const body = table.tBodies[0];
  const seen = new Set();
  rows.forEach((row, at) => {
    const name = key(row);
    seen.add(name);
    let line = table.kept.get(name);
    if (!line) {
      line = element("tr", {}, ...columns.map(([, , isText], number) => number ? element("td", isText ? {"class": "text"} : {}) :
        element("th", {scope: "row"})));
      table.kept.set(name, line);
    }
    columns.forEach(([, read], number) => {
      const cell = line.cells[number];
      const value = read(row, cell);
      if (value instanceof Node ? !cell.contains(value) : value !== undefined && cell.textContent !== String(value)) {
        cell.replaceChildren(value);
      }
    });
    if (body.rows[at] !== line) body.insertBefore(line, body.rows[at] || null);
  });
  for (const [name, line] of [...table.kept]) {
    if (!seen.has(name)) {
      line.remove();
      table.kept.delete(name);
    }
  }
}

// A button that a cell keeps. `text` may change.
function button(cell, text, press) {
  const found = cell.querySelector("button") || element("button", {type: "button"});
  if (found.textContent !== text) found.textContent = text;
  found.onclick = press;
  return found;
}

// ---- panels

function showOverview(told) {
  const rates = told.rates;
  const reading = rates.reading;
  const figures = [
    ["steps/s", rates.steps.toFixed(1)], ["ids/s", rounded(rates.ids)],
    ["records/s", reading ? rounded(reading.records) : "-"], ["step waits", percent(rates.step_waits)],
    ["device hits", percent(rates.device_hit_rate)], ["host hits", percent(rates.host_hit_rate)],
    ["rows in/s", rounded(rates.rows_in)], ["rows out/s", rounded(rates.rows_out)],
    ["batches ready", rates.depth + " of " + rates.frames]];
  const list = byId("figures");
  if (!list.children.length) {
    list.append(...figures.map(([name]) => element("div", {}, element("dt", {}, name), element("dd", {}))));
  }
  figures.forEach(([, value], at) => { list.children[at].lastChild.textContent = value; });
}

function showWarnings(told) {
  const found = told.advice.length ? told.advice : [{text: "No warnings.", cure: ""}];
  const text = JSON.stringify(found);
  const list = byId("advice");
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  list.replaceChildren(...found.map((one) => element("li", {}, one.cure ? element("strong", {}, one.text) : one.text,
    one.cure ? " " + one.cure : "")));
}

function showTables(told) {
  const rates = Object.fromEntries(told.rates.tables.map((one) => [one.table, one]));
  const rate = (name) => (table) => rates[table.name] ? rounded(rates[table.name][name]) : "-";
  fill("tables-table", "Tables. A name opens hot keys and charts.", [
    ["table", (table, cell) => button(cell, table.name, () => openTable(table.name))],
    ["keys", (table) => whole(table.keys)],
    ["on device", (table) => whole(Math.min(table.rows, table.device_rows))], ["of", (table) => whole(table.device_rows)],
    ["host rows", (table) => whole(table.home_rows)], ["on disk", (table) => whole(table.disk_rows)],
    ["of", (table) => whole(table.disk_slots)], ["device hits", (table) => percent(table.hit_rate)],
    ["new keys", (table) => whole(table.misses - table.loads)], ["swapped in", (table) => whole(table.loads)],
    ["evicted", (table) => whole(table.evicted)], ["batches", (table) => whole(table.batches)],
    ["ids/s", rate("ids")], ["in/s", rate("rows_in")], ["out/s", rate("rows_out")],
    ["host MiB", (table) => mib(table.host_bytes)], ["dim", (table) => whole(table.dim)],
  ], told.status.tables, (table) => table.name);
  fill("disks-table", "Disks with rows", [
    ["directory", (disk) => disk.directory], ["queued", (disk) => whole(disk.queued)],
    ["in flight", (disk) => whole(disk.under_way)], ["rows read", (disk) => whole(disk.rows_read)],
    ["rows written", (disk) => whole(disk.rows_written)], ["MiB read", (disk) => mib(disk.read_bytes)],
    ["MiB written", (disk) => mib(disk.written_bytes)], ["read us p50", (disk) => whole(disk.read_p50_us)],
    ["read us p99", (disk) => whole(disk.read_p99_us)],
  ], told.status.disks, (disk) => disk.directory);
}

function showWorkers(told) {
  fill("processes-table", "Processes", [
    ["process", (one) => one.process], ["pid", (one) => one.pid || "-"], ["state", (one) => one.state, true],
    ["restarts", (one) => whole(one.restarts)],
    ["processors", (one) => one.cpu === null ? "-" : one.cpu.toFixed(2)], ["processor time", (one) => seconds(one.cpu_s)],
    ["awake", (one) => percent(one.awake)], ["waits for", (one) => one.waits_for || "-", true],
  ], told.processes, (one) => one.process);
  fill("rings-table", "Rings, which queue batches for training", [
    ["stream", (ring) => ring.stream + " " + ring.channel], ["batches", (ring) => whole(ring.depth)],
    ["of", (ring) => whole(ring.frame_count)], ["waiting for space", (ring) => whole(ring.parked)],
    ["submitted", (ring) => whole(ring.submitted)], ["trained", (ring) => whole(ring.trained)],
    ["dropped", (ring) => whole(ring.dropped)], ["MiB used", (ring) => mib(ring.used_bytes)],
    ["of", (ring) => mib(ring.arena_bytes)],
  ], told.status.rings, (ring) => ring.stream + ring.channel);
  fill("reading-table", "Readers of asc.data.read", [
    ["readers", (one) => whole(one.readers)], ["records", (one) => whole(one.records)],
    ["batches", (one) => whole(one.batches)], ["MiB", (one) => mib(one.bytes)], ["skipped", (one) => whole(one.skipped)],
    ["reading", (one) => seconds(one.read_s)], ["parsing", (one) => seconds(one.parse_s)],
    ["full", (one) => seconds(one.full_s)], ["program waits", (one) => seconds(one.waited_s)],
  ], told.status.reading ? [told.status.reading] : [], () => "reading");
}

function showRanks(told) {
  byId("ranks-text").textContent = told.ranks.length ? "Ranks of this machine. Others waited longest for rank " +
    told.ranks[0].slowest + ": " + seconds(told.ranks[0].slowest_s) + "." : "This training has one rank.";
  byId("ranks-charts").hidden = !told.ranks.length;
  fill("ranks-table", "Exchanges of each rank", [
    ["rank", (one) => one.rank + " of " + one.ranks], ["exchanges", (one) => whole(one.exchanges)],
    ["MiB sent", (one) => mib(one.bytes_sent)], ["MiB received", (one) => mib(one.bytes_received)],
    ["in exchanges", (one) => seconds(one.time_s)], ["waited for others", (one) => seconds(one.waited_s)],
    ["now", (one) => one.does + (one.since_s === null ? "" : " for " + seconds(one.since_s)), true],
    ["daemon", (one) => one.daemon, true],
  ], told.ranks, (one) => String(one.rank));
}

function age(time) {
  const passed = Date.now() / 1000 - time;
  if (passed < 120) return passed.toFixed(0) + " s ago";
  return passed < 7200 ? (passed / 60).toFixed(0) + " min ago" : (passed / 3600).toFixed(1) + " h ago";
}

function showCheckpoints(told) {
  const text = JSON.stringify(told.saves);
  if (text !== state.saves) {
    state.saves = text;
    fetched("checkpoints").then((found) => { state.checkpoints = found; if (state.last) showCheckpoints(state.last); },
      (error) => { byId("checkpoints-text").textContent = String(error.message); });
  }
  byId("checkpoints-text").textContent = told.saves.length ? "Checkpoints that this session has saved, the newest first." :
    "This session has saved no checkpoint.";
  const known = Object.fromEntries(state.checkpoints.map((one) => [one.checkpoint, one]));
  const of = (save, name) => known[save.prefix] && known[save.prefix][name] !== null ? known[save.prefix][name] : null;
  fill("checkpoints-table", "Checkpoints", [
    ["checkpoint", (save) => save.prefix], ["saved", (save) => age(save.at)], ["duration", (save) => seconds(save.seconds)],
    ["MiB", (save) => of(save, "bytes") === null ? "-" : mib(of(save, "bytes"))],
    ["rows", (save) => whole(of(save, "rows"))], ["kind", (save) => of(save, "kind") || "-", true],
    ["files", (save) => of(save, "state") || (state.checkpoints.length ? "deleted" : "-"), true],
    ["verified", (save, cell) => state.verified[save.prefix] || (of(save, "state") ?
      button(cell, "Verify", () => verify(save.prefix)) : "-"), true],
  ], [...told.saves].reverse(), (save) => save.prefix);
}

async function verify(prefix) {
  state.verified[prefix] = "reading ...";
  showCheckpoints(state.last);
  try {
    const found = await fetched("verify", {checkpoint: prefix});
    state.verified[prefix] = found.length && found[0].verified ? "ok" : "BAD: " + ((found[0] || {}).problem || "not found");
  } catch (error) {
    state.verified[prefix] = error.message;
  }
  showCheckpoints(state.last);
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
  const ranks = byId("ranks-charts");
  state.charts.push(
    new Chart(ranks, "Bytes per second", [{name: "sent_bytes", label: "sent"}, {name: "received_bytes", label: "received"}], short),
    new Chart(ranks, "Waits for other ranks", [{name: "rank_waits", label: "share of time"}], percent));
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
    addPoint(state.history, told.time, {}, "");
    showHistory();
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
  addPoint(state.history, told.time, told.point, told.rates.bottleneck);
  showHistory();
  const mine = told.rates.tables.find((one) => one.table === state.table);
  if (state.tableHistory && mine) {
    const keys = status.tables.find((one) => one.name === state.table).keys;
    addPoint(state.tableHistory, told.time, Object.assign({keys}, mine), "");
    for (const chart of state.tableCharts) chart.show(state.tableHistory.time, state.tableHistory.series);
  }
  if (isFirst) readTimeline();
}

async function start() {
  charts();
  for (const [id, press] of [
    ["timeline-read", readTimeline], ["zoom-in", () => timeline.zoom(0.5, 0)], ["zoom-out", () => timeline.zoom(2, 0)],
    ["earlier", () => timeline.zoom(1, -0.5)], ["later", () => timeline.zoom(1, 0.5)], ["zoom-all", () => timeline.all()],
    ["hot-again", () => readHotKeys(state.table)]]) byId(id).addEventListener("click", press);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of [...state.charts, ...state.tableCharts, timeline]) chart.draw();
  });
  try {
    state.history = await fetched("history");
  } catch (error) {
    byId("state").textContent = error.message;
    return;
  }
  const events = new EventSource("events?" + new URLSearchParams({token}));
  events.onmessage = (event) => show(JSON.parse(event.data));
  events.onerror = () => {
    byId("state").className = "silent";
    byId("state").textContent = "The connection to the dashboard is lost. The page tries again.";
  };
}

start();
