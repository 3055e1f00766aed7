# SPDX-License-Identifier: BSD-2-Clause
"""Charts of docs/benchmarks.md: SVG, drawn by gnuplot.

    bench-tpch > tpch.jsonl; python3 bench/charts.py tpch.jsonl docs/charts
    bench-weather > weather.jsonl; python3 bench/charts.py weather.jsonl docs/charts
    bench-weather 10 256 model > levels.jsonl
    python3 bench/charts.py levels.jsonl docs/charts docs/levels.md

The first line draws figures 14, 15 and 16 of the Anvil paper, the second one the loading of weather
tuples. The last two draw the model of the schedule of levels, and write its table into the page.
bench/run draws the charts of the workloads.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

import summary
import tables

# The engines in the charts.
SHOWN = ["lladd-hash", "lladd-hash-physical", "lladd-array", "bdb-hash", "lmdb", "sqlite",
         "wiredtiger", "rocksdb-batch", "leveldb", "kyotocabinet-hash", "tdb"]
COLOURS = ["#c00000", "#e07030", "#d0a000", "#1060b0", "#20a050", "#8040a0", "#606060", "#40b0c0",
           "#a06030", "#e060a0", "#90b020"]


def points(rows, workload, case, x, y, filesystem=None):
    """Returns {engine: [(x, median of y)]}, from the rows that have both x and y."""
    found = {}
    for row in rows:
        if "skipped" in row or row.get("failure") or (row["workload"], row["case"]) != (workload,
                                                                                       case):
            continue
        if row["engine"] in SHOWN and (filesystem is None or row["filesystem"] != "tmpfs"):
            at, value = x(row), y(row)
            if at is not None and value:
                found.setdefault(row["engine"], {}).setdefault(at, []).append(value)
    return {e: sorted((at, statistics.median(v)) for at, v in found[e].items())
            for e in SHOWN if e in found}


def gnuplot(path, commands):
    text = ["set terminal svg size 860,480 font 'sans-serif,13' background 'white'",
            f"set output '{path}'", "set grid", *commands]
    subprocess.run(["gnuplot"], input="\n".join(text) + "\n", text=True, check=True)
    with open(path, encoding="utf-8") as f:
        lines = [line.rstrip() for line in f]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def plot(path, settings, curves):
    """Curves are (name, points, style)."""
    text = ["set key outside right top", *settings]
    for i, (_, values, _) in enumerate(curves):
        text.append(f"$c{i} << EOD")
        text += [f"{x} {y}" for x, y in values]
        text.append("EOD")
    text.append("plot " + ", ".join(
        f"$c{i} using 1:2 {style} linewidth {3 if name.startswith('lladd') else 1.3} "
        f"linecolor rgb '{COLOURS[SHOWN.index(name) if name in SHOWN else 3 * i % 11]}' "
        f"title '{name}'"
        for i, (name, _, style) in enumerate(curves)))
    gnuplot(path, text)


def lines(found):
    return [(engine, values, "with linespoints") for engine, values in found.items()
            if len(values) > 1]


def insert(rows, path):
    found = points([r for r in rows if r.get("threads") == 1 and r.get("value_size") == 4], "W1",
                   "insert", lambda r: r["n"], lambda r: r["elapsed_s"])
    return path, ["set logscale xy", "set xlabel 'inserts in one transaction'",
                  "set ylabel 'seconds, creation to clean close'"], lines(found)


def threads(rows, path):
    rows = [r for r in rows if (r["workload"], r.get("case")) == ("W5", "lookup")]
    fewest = min((r["n"] for r in rows if not r["failure"]), default=0)
    rows = [r for r in rows if r["n"] == fewest]
    found = points(rows, "W5", "lookup", lambda r: r["threads"], lambda r: r["elapsed_s"] * 1e3)
    return path, ["set logscale x 2", "set yrange [0:*]", "set xlabel 'threads'",
                  f"set ylabel 'ms for {fewest:,} lookups'"], lines(found)


def commits(rows, path):
    found = points(rows, "W3", "durable", lambda r: r["threads"], lambda r: r["ops_per_s"], "disk")
    return path, ["set logscale x 2", "set logscale y", "set xlabel 'threads'",
                  "set ylabel 'durable transactions a second'"], lines(found)


def recovery(rows, path):
    def log(row):
        if not row.get("log_bytes_per_op"):
            return None
        return row["log_bytes_per_op"] * row["n"] / 2 ** 20
    found = points(rows, "W6", "recovery-warm", log, lambda r: r["elapsed_s"])
    return path, ["set logscale xy", "set xlabel 'MiB of log since the last checkpoint'",
                  "set ylabel 'seconds until the first read'"], lines(found)


def checkpoint(rows, path):
    curves, settings = [], ["set xlabel 'seconds'", "set yrange [0:*]",
                            "set ylabel 'durable transactions a second'"]
    for row in rows:
        if row.get("case") != "peak" or row["failure"] or row["engine"] not in SHOWN or row["run"]:
            continue
        at, n = row["slice_s"], len(row["slices"])
        wide = max(1, n // 50)
        values = [((i + wide / 2) * at, sum(row["slices"][i:i + wide]) / (wide * at))
                  for i in range(0, n - wide + 1, wide)]
        curves.append((row["engine"], values, "with lines"))
        if row["engine"] == "lladd-hash" and row["checkpoint_from_s"] is not None:
            begin, end = row["checkpoint_from_s"], row["checkpoint_to_s"]
            settings.append(f"set object rectangle from {begin}, graph 0 to "
                            f"{max(end, begin + at)}, graph 1 behind fillcolor rgb '#eeeeee' "
                            "fillstyle solid")
    return path, settings, curves


def columns(rows, path):
    """Figure 14 of the Anvil paper."""
    found = {}
    for row in rows:
        words = row.get("case", "").removeprefix("figure 14: ").split(", ")
        if len(words) == 4 and (words[0], words[1]) in (("row store", "by a cursor"),
                                                        ("column store", "in batches")):
            found.setdefault(f"{words[0]}, {words[2]}", []).append(
                (int(words[3].split()[0]), row["median"]))
    return path, ["set xlabel 'columns of 16'", "set ylabel 'seconds for all rows'",
                  "set logscale y", "set xrange [0:17]"], [
        (name, sorted(values), "with linespoints") for name, values in found.items()]


def loading(rows, path):
    """Figures 15 and 16 of the Anvil paper."""
    return path, ["set xlabel 'seconds'", "set ylabel 'rows a second'", "set yrange [0:*]"], [
        (row["series"], row["points"], "with lines") for row in rows
        if "series" in row and row["bench"] == "tpch"]


MILLIONS = "set format y '%.1s %c'"  # 1.5 M


def weather(rows, path):
    """Tuples a second while a store is loaded (Rose paper, figure 4)."""
    return path, ["set xlabel 'million tuples'", "set ylabel 'tuples a second'",
                  "set yrange [0:*]", MILLIONS], [
        (row["series"], row["points"], "with linespoints") for row in rows
        if "series" in row and row["bench"] == "weather"]


def levels(rows, path):
    """Tuples a second against R, measured and as the model has them (docs/levels.md)."""
    found = [row["levels"] for row in rows if "levels" in row]
    settings = ["set xlabel 'R'", "set ylabel 'tuples a second'", "set logscale xy 10",
                "set yrange [100000:]", MILLIONS, "set xrange [1.8:33]",
                "set xtics (" + ", ".join(f"{p['r']:g}" for p in found) + ")"]
    return path, settings, [
        (name, [(p["r"], p[member]) for p in found], style) for name, member, style in (
            ("measured", "rate", "with linespoints"), ("model", "rate_model", "with lines"))
        if found]


FIGURES = [("columns", columns), ("loading", loading), ("weather", weather), ("levels", levels)]
ALL = [("insert", insert, "Inserts in one transaction: time against their number"),
       ("threads", threads, "Cached lookups: total time against threads"),
       ("commits", commits, "Durable transactions a second against threads"),
       ("recovery", recovery, "Time until the first read after kill -9 against the log's size"),
       ("checkpoint", checkpoint,
        "Throughput during a checkpoint (grey: the checkpoint of lladd-hash; the other engines "
        "begin theirs at the same time)")]


def ratios(rows, path):
    """Draws a bar for each of summary.LINES: our rate as a multiple of the best peer's. Returns
    False if there is nothing to draw."""
    bars = [(text, here / there, peer) for text, here, there, peer in summary.compared(rows)]
    if not bars:
        return False
    commands = ["unset key", "set logscale x 2", "unset grid", "set grid xtics",
                "set lmargin 46", "set rmargin 3", "set xlabel 'times the best peer (named)'",
                f"set yrange [{len(bars) - 0.4}:-0.6]",
                f"set xrange [{min([0.5] + [r for _, r, _ in bars]) / 1.2}:"
                f"{max(r for _, r, _ in bars) * 8}]",
                "set arrow from 1, graph 0 to 1, graph 1 nohead linewidth 1.5",
                "set ytics (" + ", ".join(f"'{text}' {i}" for i, (text, _, _) in enumerate(bars))
                + ")", "set style fill solid", "$bars << EOD"]
    for i, (_, ratio, _) in enumerate(bars):
        low, high = min(1, ratio), max(1, ratio)
        commands.append(f"{ratio} {i} {low} {high} {i - 0.32} {i + 0.32} "
                        f"{0xc00000 if ratio < 1 else 0x20a050}")
    commands.append("EOD")
    for i, (_, ratio, peer) in enumerate(bars):
        commands.append(f"set label '{ratio:.2g}  {peer}' at {max(1, ratio) * 1.06}, {i} left")
    commands.append("plot $bars using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable")
    gnuplot(path, commands)
    return True


def draw(rows, folder):
    """Draws the charts that have rows; returns [(name, text)], without ratios.svg."""
    if not shutil.which("gnuplot"):
        print("no gnuplot: no charts (bench/install-peers installs it)", file=sys.stderr)
        return []
    os.makedirs(folder, exist_ok=True)
    drawn = []
    for name, make, text in ALL:
        path, settings, curves = make(rows, os.path.join(folder, name + ".svg"))
        if curves:
            plot(path, settings, curves)
            drawn.append((name, text))
    ratios(rows, os.path.join(folder, "ratios.svg"))
    return drawn


def draw_figures(rows, folder):
    """Draws the figures that have rows."""
    for name, make in FIGURES:
        path, settings, curves = make(rows, os.path.join(folder, name + ".svg"))
        if curves:
            plot(path, settings, curves)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = [json.loads(line) for line in f if line.startswith("{")]
    draw_figures(rows, sys.argv[2])
    if len(sys.argv) > 3:
        tables.write(sys.argv[3], "levels", tables.levels(rows))


if __name__ == "__main__":
    main()
