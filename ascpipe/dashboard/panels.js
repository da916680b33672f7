// Panels of the dashboard that need only an event of the server. page.js calls them.
"use strict";

const WORDS = ["-", "step", "input", "key worker", "table worker", "disk", "peer", "compiling kernels"];
const MIB = 1 << 20;
const byId = (id) => document.getElementById(id);
const whole = (value) => value === null || value === undefined ? "-" : Number(value).toLocaleString("en-US");
const rounded = (value) => value === null || value === undefined ? "-" : whole(Math.round(value));
const mib = (value) => (value / MIB).toLocaleString("en-US", {minimumFractionDigits: 1, maximumFractionDigits: 1});
const seconds = (value) => value === null || value === undefined ? "-" : value.toFixed(1) + " s";

// ---- tables: rows are reused and only changed cells are written, so focus and selection are preserved

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

// Return the button of a cell, which is created at the first call. `text` may change between calls.
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
