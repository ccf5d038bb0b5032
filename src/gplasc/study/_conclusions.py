"""What a comparison shows: tests of the gains that its plan names, and one sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gplasc._io.table import Column, Table
from gplasc.results.group import CLASS_IL, Group, differing_settings, say_differing
from gplasc.results.statistics import ENOUGH_PAIRS, ENOUGH_SEEDS, Difference, holm
from gplasc.study.stored import Results

_LEVEL = 0.05


@dataclass(frozen=True)
class _Test:
    """A row of the family against its better base; `p` is corrected for the number of tests."""

    row: Group
    base: Group | None
    paired: Difference
    others: tuple[str, ...]
    """The differences to the further bases, in words."""
    p: float = 1.0

    @property
    def verdict(self) -> str:
        """What the seeds allow to say."""
        if self.paired.count < ENOUGH_PAIRS:
            return f"not tested: {self.paired.count} of at least {ENOUGH_PAIRS} seeds"
        return "significant" if self.p < _LEVEL else "not significant"


def _run_tests(results: Results) -> list[_Test]:
    """Return the tests of the family on every stream and with every buffer."""
    groups = results.groups(stage="test")
    tests = []
    for row in (group for group in groups if group.labels["row"] in results.plan.family):
        base = row.base_among(groups)
        paired = row.difference(CLASS_IL, base) if base else Difference.of({}, {})
        gains = {name: row.gain(CLASS_IL, groups, number) for number, name in enumerate(row.bases) if number}
        others = tuple(f"{gain.mean:+.2f} over {name}" for name, gain in gains.items() if gain)
        tests.append(_Test(row, base, paired, others))
    corrected = holm([test.paired.p for test in tests])
    return [replace(test, p=p) for test, p in zip(tests, corrected, strict=True)]


def tests_table(results: Results, stream: str) -> Table | None:
    """Return the gains of the family over their better bases, with both intervals and the corrected p-value."""
    tests = _run_tests(results)
    rows = []
    for test in tests:
        if test.row.labels["stream"] == stream and test.base and test.paired.count:
            welch = Difference.welch(test.base.by_seed(CLASS_IL), test.row.by_seed(CLASS_IL))
            p = f"{test.p:.3g}" if test.paired.count >= ENOUGH_PAIRS else None
            place = (results.caption.buffer(test.row), test.row.row, test.base.row)
            rows.append([*place, str(test.paired), str(welch), p, test.verdict])
    if not rows:
        return None
    heads = ("", "compared with", "paired difference", "Welch's interval", "corrected p", "")
    notes = [
        f"Family of {len(tests)} tests (Student's t of the paired differences), named before the runs; p corrected "
        f"by Holm's method, significant below {_LEVEL:g}. Fewer than {ENOUGH_PAIRS} seeds have intervals alone.",
        *_base_notes(results, stream),
        *say_differing(results.groups(stage="test", stream=stream), ("buffer",)),
    ]
    title = f"Gains in class-IL on {stream}, evaluated on {results.evaluated_on}, percentage points"
    return Table(title, [Column("buffer"), *(Column(head, "left") for head in heads)], rows, notes)


def _base_notes(results: Results, stream: str) -> list[str]:
    """Say how the better base was chosen."""
    chosen = results.groups(stage="bases", stream=stream)
    texts = [f"{group.row} {group.spread(CLASS_IL)}" for group in chosen]
    seeds = ", ".join(map(str, results.plan.base_seeds))
    note = "The base that is better on validation comes first; it is the same for all seeds"
    return [f"{note} (seeds {seeds}): {', '.join(texts)}."] if texts else []


def conclusion(results: Results) -> str:
    """Return one sentence: what gains over what, by how much, whether it survives, and what else differs."""
    planned = _run_tests(results)
    tests = [test for test in planned if test.base and test.paired.count]
    if not tests:
        return "Nothing was compared: no row has a base with the same seeds."
    places = {(test.row.labels["stream"], test.row.labels.get("buffer")) for test in tests}
    texts = [_say(test, len(planned), several=len(places) > 1) for test in tests]
    pairs = [(test.row, test.base) for test in tests if test.base]
    apart = dict.fromkeys(name for pair in pairs for name in differing_settings(pair))
    scale = "At scale smoke, where numbers mean nothing: " if results.plan.scale == "smoke" else ""
    fair = "each row has the shared settings of the base it is compared with"
    fair = f"they differ from their bases in {', '.join(apart)}" if apart else fair
    return f"{scale}{'; '.join(texts)}; {fair}."


def _say(test: _Test, count: int, *, several: bool) -> str:
    labels, paired = test.row.labels, test.paired
    buffer = f", buffer {labels['buffer']}" if "buffer" in labels else ""
    where = f" on {labels['stream']}{buffer}" if several else ""
    pair = f"{test.row.row} {{}} {test.base.row if test.base else ''}{where}"
    if paired.count < ENOUGH_SEEDS:
        return pair.format("cannot be told from") + f" with {paired.count} of at least {ENOUGH_SEEDS} seeds"
    verb = "gains" if paired.mean >= 0 else "loses"
    low, high = sorted((paired.low, paired.high))
    text = pair.format(f"{verb} {abs(paired.mean):.2f} points [{low:+.2f}, {high:+.2f}] of class-IL over")
    text += f" ({', '.join(test.others)})" if test.others else ""
    if paired.count < ENOUGH_PAIRS:
        return f"{text} ({paired.count} seeds: not tested)"
    survives = "survives" if test.p < _LEVEL else "does not survive"
    return f"{text}, which {survives} Holm's correction over {count} {'test' if count == 1 else 'tests'}"
