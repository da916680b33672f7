"""Program that scrapes a daemon at an interval: `python -m bench.scraping_peer PORT SECONDS`.

Each line of its input switches the scraping on or off. The answer is the number of scrapes. The program exits at the
end of the input.
"""
import select
import sys
import time
import urllib.request
from typing import List


def main(arguments: List[str]) -> None:
    """Scrape until the end of the input."""
    address = "http://127.0.0.1:{}/metrics".format(int(arguments[0]))
    every_s = float(arguments[1])
    count = 0
    is_on = False
    due = 0.0
    while True:
        wait_s = max(0.0, due - time.monotonic()) if is_on else None
        if select.select([sys.stdin], [], [], wait_s)[0]:
            if not sys.stdin.readline():
                return
            is_on = not is_on
            due = time.monotonic()
            print(count, flush=True)
            continue
        with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310
            if b"ascpipe_table_batches_total{" not in answer.read():
                raise RuntimeError("a scrape has no tables")
        count += 1
        due += every_s


if __name__ == "__main__":
    main(sys.argv[1:])
