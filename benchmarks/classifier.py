"""Time to load a classifier, time of one prediction, and time and memory of many, in processor time of one core.

    gplasc learn state month1 --encoder small
    python benchmarks/classifier.py state month1 --count 10000

The files of the folder are repeated until there are `--count` of them. Memory is the largest resident set of the
process so far, after 500 files and after all.
"""

import argparse
import itertools
import resource
import statistics
import time
from pathlib import Path

import torch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"python and torch: {time.process_time():.1f} s")

    from gplasc import ContinualClassifier
    from gplasc.classifier._intake import list_files

    start = time.process_time()
    classifier = ContinualClassifier.load(arguments.state, device="cpu", quiet=True)
    print(f"import gplasc and load the state: {time.process_time() - start:.1f} s")

    files = list_files([arguments.folder])
    times = []
    for file in itertools.islice(itertools.cycle(files), 60):
        start = time.process_time()
        list(classifier.iterate_top([file], 1))
        times.append(time.process_time() - start)
    print(f"predict one file: {1000 * statistics.median(times):.1f} ms (median of {len(times)})")

    for count in (500, arguments.count):
        start = time.process_time()
        predicted = sum(
            1 for _ in classifier.iterate_top(list(itertools.islice(itertools.cycle(files), count)), 1)
        )
        seconds = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"predict {predicted} files: {seconds:.1f} s, at most {memory:.0f} MB of memory")


if __name__ == "__main__":
    main()
