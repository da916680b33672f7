// Panel of ranks: figures and charts of each rank of this machine, and which rank waits for which. page.js calls the
// functions.
"use strict";

const ranks = {numbers: "", history: null, charts: []};
const RANK_CHARTS = [["Steps per second of each rank", "steps", short], ["Bytes sent per second by each rank", "sent_bytes", short],
                     ["Share of time in which each rank waits for other ranks", "waited", percent]];

function showRanks(told) {
  byId("ranks-text").textContent = told.ranks.length ? "Ranks of this machine. Others waited longest for rank " +
    told.ranks[0].slowest + ": " + seconds(told.ranks[0].slowest_s) + "." : "This training has one rank.";
  for (const id of ["rank-charts", "waits"]) byId(id).hidden = !told.ranks.length;
  const rate = (name, text) => (one) => one.rates ? text(one.rates[name]) : "-";
  fill("ranks-table", "Exchanges of each rank", [
    ["rank", (one) => one.rank + " of " + one.ranks], ["steps/s", rate("steps", (value) => value.toFixed(1))],
    ["sent/s", rate("sent_bytes", short)], ["waits", rate("waited", percent)],
    ["exchanges", (one) => whole(one.exchanges)],
    ["MiB sent", (one) => mib(one.bytes_sent)], ["MiB received", (one) => mib(one.bytes_received)],
    ["in exchanges", (one) => seconds(one.time_s)], ["waited for others", (one) => seconds(one.waited_s)],
    ["now", (one) => one.does + (one.since_s === null ? "" : " for " + seconds(one.since_s)), true],
    ["daemon", (one) => one.daemon, true],
  ], told.ranks, (one) => String(one.rank));
  showRankCharts(told);
}

function showRankCharts(told) {
  const numbers = told.ranks.map((one) => one.rank);
  if (!numbers.length) return;
  if (ranks.numbers !== numbers.join()) {
    ranks.numbers = numbers.join();
    ranks.history = null;
    byId("rank-charts").replaceChildren();
    ranks.charts = RANK_CHARTS.map(([title, name, text]) => new Chart(byId("rank-charts"), title,
      numbers.map((rank) => ({name: name + " " + rank, label: "rank " + rank})), text));
    fetched("history", {ranks: "all"}).then((found) => { ranks.history = found; }, () => null);
  }
  if (ranks.history === null) return;
  const point = {};
  for (const one of told.ranks) {
    for (const [, name] of RANK_CHARTS) point[name + " " + one.rank] = one.rates ? one.rates[name] : null;
  }
  for (const name of Object.keys(point)) {
    ranks.history.series[name] = ranks.history.series[name] || ranks.history.time.map(() => null);
  }
  addPoint(ranks.history, told.time, point, "");
  for (const chart of ranks.charts) chart.show(ranks.history.time, ranks.history.series);
}

// Table of the recorded exchanges: a row for each rank that waits, a column for each rank for which it waits.
// `spans`: events of a trace with `args.last`, the rank that joined an exchange last; `begin`: time of the first event.
function showWaits(spans, begin) {
  const waits = new Map();
  let count = 0;
  let end = begin;
  for (const {ts, dur, args} of spans) {
    if (args.waited_us === undefined) continue;
    count = Math.max(count, args.rank + 1, args.last === null ? 0 : args.last + 1);
    end = Math.max(end, ts + dur);
    if (!waits.has(args.rank)) waits.set(args.rank, new Map());
    if (args.last !== null) waits.get(args.rank).set(args.last, (waits.get(args.rank).get(args.last) || 0) + args.waited_us);
  }
  const columns = [...Array(count).keys()];
  const length = Math.max(1, end - begin);
  const cell = (rank, last) => {
    const us = waits.get(rank).get(last) || 0;
    const made = element("td", rank === last ? {} : {"class": "share"}, rank === last ? "-" : (us / 1000).toFixed(1) + " ms");
    if (rank !== last) made.style.setProperty("--share", Math.min(1, us / length));
    return made;
  };
  byId("waits-text").textContent = count ? "Recorded exchanges of " + (length / 1e6).toFixed(1) + " s. A bar is the share of this time." :
    "No exchange is recorded.";
  byId("waits-table").replaceChildren(element("caption", {}, "Waits between ranks"),
    element("thead", {}, element("tr", {}, element("th", {scope: "col"}, "rank"),
      ...columns.map((last) => element("th", {scope: "col"}, "waits for rank " + last)))),
    element("tbody", {}, ...[...waits.keys()].sort((one, other) => one - other).map((rank) =>
      element("tr", {}, element("th", {scope: "row"}, "rank " + rank), ...columns.map((last) => cell(rank, last))))));
}
