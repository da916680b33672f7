"""Trains with all features for hours while faults happen: `make soak`, docs/internals/testing.md."""
import os
import random
import shutil
import sys
import time
from typing import List, Optional

import click

from ascpipe.config import load_settings
from tests.soak import picture
from tests.soak.director import PROGRESS_S, Outcome, Plan, Soak
from tests.support.daemons import ROOT

USERS = load_settings(environment={})  #: settings as users have them
WARM_UP_PART, MOST_WARM_UP_S = 0.2, 120.0


@click.command()
@click.option("--hours", default=1.0, show_default=True, type=click.FloatRange(0.001, 1000),
              help="How long it trains; a fraction will do.")
@click.option("--seed", type=click.IntRange(0, (1 << 31) - 1), help="Of data, saves and faults. Drawn if not given.")
@click.option("--every", "mean_s", default=4.0, show_default=True, type=click.FloatRange(0.05, 3600),
              help="Seconds between two faults, on average.")
@click.option("--patience", "patience_s", default=USERS.worker_patience_s, show_default=True,
              type=click.FloatRange(2, 300),
              help="worker_patience_s of the daemon: how long a worker stays stopped before it is replaced.")
@click.option("--output", help="Folder for logs, samples and the picture.  [default: build/soak/SEED-TIME]")
@click.option("--progress", "progress_s", default=PROGRESS_S, show_default=True, type=click.FloatRange(1, 3600),
              help="Seconds between two lines.")
@click.option("--plant", type=click.IntRange(0), metavar="STEP",
              help="Flip a bit of a row before this step, to see that it is found.")
def main(hours: float, seed: Optional[int], mean_s: float, patience_s: float, output: Optional[str], progress_s: float,
         plant: Optional[int]) -> None:
    """Train with all features while faults happen; exit code 0 if all was exact and no process grew."""
    seconds = 3600 * hours
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    folder = os.path.abspath(output or os.path.join(ROOT, "build", "soak", "{}-{}".format(
        seed, time.strftime("%Y%m%d-%H%M%S"))))
    os.makedirs(folder, exist_ok=True)
    plan = Plan(seconds, seed, folder, min(MOST_WARM_UP_S, WARM_UP_PART * seconds), mean_s, patience_s, progress_s,
                -1 if plant is None else plant)
    click.echo("soak: seed={} hours={:g}, logs and samples: {}".format(seed, hours, folder))
    with Soak(plan, lambda line: click.echo(line)) as soak:
        outcome = soak.run()
    if outcome.samples:
        click.echo(picture.draw(outcome.samples, os.path.join(folder, "samples.png")))
    for line in table(outcome):
        click.echo(line)
    if not outcome.broken:
        for name in ("checkpoints", "rows"):
            shutil.rmtree(os.path.join(folder, name))
    click.echo(last_line(outcome, seed, folder))
    sys.exit(1 if outcome.broken else 0)


def table(outcome: Outcome) -> List[str]:
    """How rows of each table have moved, and each process has grown since the warm-up."""
    rows = {name: ["{} {}".format(*item) for item in moved.items()] for name, moved in outcome.moved.items()}
    rows.update((role, ["{} {:+.0f}".format(*item) for item in drifts.items()])
                for role, drifts in outcome.verdict.drifts.items())
    for role, grown in outcome.verdict.aging.items():
        rows.setdefault(role, []).append("in ten minutes of life {:+.0f} KiB".format(grown))
    return ["  {:<12} {}".format(name, "  ".join(figures)) for name, figures in rows.items() if figures]


def last_line(outcome: Outcome, seed: int, folder: str) -> str:
    """The result in one line."""
    verdict = outcome.verdict
    figures = ["{}={}".format(name, count) for name, count in outcome.counts.items()]
    figures += ["{}={}".format(name, "?" if drift is None else round(drift)) for name, drift in (
        ("drift_kib", verdict.drift_kib), ("drift_trainer_kib", verdict.drift_trainer_kib))]
    if not outcome.broken:
        return "soak: ok {}".format(" ".join(figures))
    return "soak: FAILED seed={} {}: {}; logs and samples: {}".format(
        seed, " ".join(figures), "; ".join(" ".join(sentence.split()) for sentence in outcome.broken), folder)


if __name__ == "__main__":
    main()
