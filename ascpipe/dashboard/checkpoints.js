// Panel of checkpoints: charts and list of the saves, and the verification of a checkpoint. page.js calls the functions.
"use strict";

const checkpoints = {seen: "", found: [], verified: {}, charts: []};

function saveCharts() {
  const place = byId("checkpoints-charts");
  checkpoints.charts = [
    new Chart(place, "Duration of saves, seconds", [{name: "seconds", label: "duration", points: true}], short),
    new Chart(place, "Size of checkpoints, MiB", [{name: "full", label: "full", points: true},
      {name: "delta", label: "delta", points: true}],
      (value) => value === null || value === undefined ? "-" : mib(value))];
}

function age(time) {
  const passed = Date.now() / 1000 - time;
  if (passed < 120) return passed.toFixed(0) + " s ago";
  return passed < 7200 ? (passed / 60).toFixed(0) + " min ago" : (passed / 3600).toFixed(1) + " h ago";
}

function showCheckpoints(told) {
  const text = JSON.stringify(told.saves);
  if (text !== checkpoints.seen) {
    checkpoints.seen = text;
    fetched("checkpoints").then((found) => { checkpoints.found = found; if (state.last) showCheckpoints(state.last); },
      (error) => { byId("checkpoints-text").textContent = String(error.message); });
  }
  byId("checkpoints-text").textContent = told.saves.length ? "Checkpoints that this session has saved, the newest first." :
    "This session has saved no checkpoint.";
  const known = Object.fromEntries(checkpoints.found.map((one) => [one.checkpoint, one]));
  const of = (save, name) => known[save.prefix] && known[save.prefix][name] !== null ? known[save.prefix][name] : null;
  const [duration, sizes] = checkpoints.charts;
  byId("checkpoints-charts").hidden = !told.saves.length;
  const times = told.saves.map((save) => save.at);
  const bytes = (kind) => told.saves.map((save) => save.kind === kind ? save.bytes : null);
  duration.show(times, {seconds: told.saves.map((save) => save.seconds)});
  sizes.show(times, {full: bytes("full"), delta: bytes("delta")});
  fill("checkpoints-table", "Checkpoints", [
    ["checkpoint", (save) => save.prefix], ["saved", (save) => age(save.at)], ["duration", (save) => seconds(save.seconds)],
    ["MiB", (save) => save.bytes === null ? "-" : mib(save.bytes)],
    ["rows", (save) => whole(of(save, "rows"))], ["kind", (save) => save.kind || "-", true],
    ["files", (save) => of(save, "state") || (checkpoints.found.length ? "deleted" : "-"), true],
    ["verified", (save, cell) => checkpoints.verified[save.prefix] || (of(save, "state") ?
      button(cell, "Verify", () => verify(save.prefix)) : "-"), true],
  ], [...told.saves].reverse(), (save) => save.prefix);
}

async function verify(prefix) {
  checkpoints.verified[prefix] = "reading ...";
  showCheckpoints(state.last);
  try {
    const found = await fetched("verify", {checkpoint: prefix});
    checkpoints.verified[prefix] = found.length && found[0].verified ? "ok" : "BAD: " + ((found[0] || {}).problem || "not found");
  } catch (error) {
    checkpoints.verified[prefix] = error.message;
  }
  showCheckpoints(state.last);
}
