import csv
import json
import math
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gplasc._io.table import Table
from gplasc.cli import main
from gplasc.errors import UserError
from gplasc.report.findings import find_findings, headline
from gplasc.report.heatmap import HeatMap
from gplasc.report.page import _build_sections, _write_blocks, build_report, write_report
from gplasc.report.panels import make_panels
from gplasc.report.render import Block, Section
from gplasc.results.record import Record, write_record

VOID = {"meta", "link", "img", "br", "input"}


class Outline(HTMLParser):
    """Reads a page strictly: every element is closed in order; collects headings, ids, links and tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.scripts = 0
        self.tables = self.captions = self.headers_without_scope = 0
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if (values.get("href") or "").startswith("#"):
            self.links.append(str(values["href"])[1:])
        self.addresses += [str(values[name]) for name in ("src", "href", "action") if values.get(name)]
        self.scripts += tag == "script"
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self.headers_without_scope += tag == "th" and "scope" not in values
        assert not any(name.startswith("on") for name in values)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words += data


def sections_of(records: list[Record]) -> list[Section]:
    return _build_sections(make_panels(records))


def blocks_of(section: Section) -> list[Block]:
    return [block for part in section.all_parts() for block in part.blocks]


def grid(make_record: Any, seeds: int = 3, **more: Any) -> list[Any]:
    return [
        make_record(method, plugins, seed=seed, **more)
        for method in ("co2l", "er")
        for plugins in ((), ("gplasc",))
        for seed in range(seeds)
    ]


def store(records: list[Record], folder: Path) -> None:
    """Write records as runs do."""
    for record in records:
        (folder / record.run_id).mkdir(parents=True)
        write_record(folder / record.run_id, record)


def read(records: list[Record], folder: Path, **more: Any) -> tuple[str, Outline]:
    text = build_report(records, folder / "report.html", **more).read_text(encoding="utf-8")
    return text, Outline(text)


@pytest.fixture(scope="module")
def usual(make_record, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Outline]:
    """A page about two methods, each with and without the plug-in."""
    return read(grid(make_record), tmp_path_factory.mktemp("usual"), title="My runs")


def test_page_has_every_section_and_asks_nobody(usual) -> None:
    text, outline = usual
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert titles == [
        "Summary", "Compared with the paper", "Accuracy by task", "Forgetting", "Accuracy matrices",
        "Geometry of the features", "Time", "Deviations", "Settings", "Provenance",
    ]  # fmt: skip
    assert all(address.startswith(("#", "data:")) for address in outline.addresses)
    assert "default-src 'none'" in text
    assert len(text) < 700_000
    assert "<title>My runs</title>" in text
    # What is said once is not repeated.
    assert outline.words.count("Not a reproduction of published numbers") == 1
    assert outline.words.count("seq-cifar10, memory 200, cpu scale") <= 2  # lead, settings


def test_page_is_structured_for_screen_readers(usual) -> None:
    text, outline = usual
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(outline.headings, outline.headings[1:], strict=False))
    assert len(set(outline.ids)) == len(outline.ids)
    assert set(outline.links) <= set(outline.ids)
    assert outline.tables == outline.captions > 10
    assert outline.headers_without_scope == 0
    assert 'class="skip"' in text
    figures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(figures) > 10
    for figure in figures:
        assert re.search(r'<(svg|canvas)[^>]* role="img" aria-label="[^"]{10,}"', figure)
        assert re.search(r"<figcaption>[^<]{10,}", figure)


def test_hostile_names_and_missing_numbers_stay_text(hostile_records, tmp_path: Path) -> None:
    streams = [r["stream"] | {"class_names": ["a"], "notes": []} for r in hostile_records]
    pairs = zip(hostile_records, streams, strict=True)
    clean = [Record.parse(record.to_dict() | {"stream": stream}) for record, stream in pairs]
    text, outline = read(hostile_records, tmp_path, title="<script>x</script>")
    assert "<script>window" not in text
    assert "<img src=x" not in text
    assert "window.hacked=1" in outline.words  # shown, not run
    assert outline.scripts == read(clean, tmp_path)[1].scripts
    assert "NaN" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("tasks", [1, 3])
def test_one_run_is_enough(make_record, tmp_path: Path, tasks: int) -> None:
    text, outline = read([make_record(tasks=tasks)], tmp_path)
    assert "1 run of 1 configuration" in outline.words
    assert " gain" not in re.sub(r"<p>.*?</p>", "", text.split("Summary</h2>")[1].split("<h2")[0])


def test_different_streams_stand_apart(make_record, tmp_path: Path) -> None:
    _, outline = read([*grid(make_record), make_record(stream="seq-digits", tasks=5)], tmp_path)
    assert outline.words.count("seq-digits, memory 200, cpu scale") > 3


def test_numbers_that_are_missing(make_data, tmp_path: Path) -> None:
    without = make_data() | {"geometry": [], "timings": []}
    without["matrix"] = {scenario: [[math.nan] * 3] * 3 for scenario in without["matrix"]}
    _, outline = read([Record.parse(without)], tmp_path)
    assert "–" in outline.words
    earlier = make_data()  # an earlier version wrote no mean of the cosines
    for entry in earlier["geometry"]:
        del entry["center_cosine_mean"]
    _, outline = read([Record.parse(earlier)], tmp_path)
    assert "Mean cosine between centers: −0.50" in outline.words


def cells_of(table: Table, column: str) -> list[str]:
    at = [head.name for head in table.heads].index(column)
    return [str(row[at].value) for row in table.cells]


def paper_tables(records: list[Record]) -> list[Table]:
    return [
        block
        for section in sections_of(records)
        if section.title == "Compared with the paper"
        for block in blocks_of(section)
        if isinstance(block, Table)
    ]


def test_only_paper_scale_is_measured_against_the_paper(make_record) -> None:
    from gplasc.published import published

    (small,) = paper_tables(grid(make_record, scale="cpu"))
    assert set(cells_of(small, "ours − paper")) == {"–"}
    assert "cpu scale" in small.notes[0]
    (full,) = paper_tables(grid(make_record, scale="paper"))
    assert full.notes == ()
    at = next(
        i
        for i, row in enumerate(full.cells)
        if [c.value for c in row[:3]] == ["co2l+gplasc", "class-IL final accuracy", "the main accuracy table"]
    )
    place = {"stream": "seq-cifar10", "buffer": 200, "scenario": "class_il"}
    (theirs,) = published("acc_result", row="co2l+gplasc", **place)
    (base,) = published("acc_result", row="co2l", **place)
    ours = float(cells_of(full, "ours, paper scale")[at].split(" ")[0])
    gap = float(cells_of(full, "ours − paper")[at].replace("−", "-"))
    assert gap == pytest.approx(ours - theirs.mean, abs=0.011)
    assert cells_of(full, "the paper")[at] == str(theirs)
    assert float(cells_of(full, "the paper's gain")[at]) == pytest.approx(theirs.mean - base.mean, abs=0.006)


def test_streams_without_published_numbers_have_no_such_section(make_record) -> None:
    assert paper_tables(grid(make_record, stream="seq-digits")) == []


def test_a_setting_varied_alone_is_drawn(make_record) -> None:
    rates = (0.01, 0.1, 1.0)
    records = [
        make_record(seed=seed, settings={"train": {"lr": lr, "milestones": [60, 75]}}, accuracy=50 + 10 * lr)
        for lr in rates
        for seed in (0, 1)
    ]
    (section,) = [s for s in sections_of(records) if s.title == "Effect of settings"]
    chart = blocks_of(section)[0]
    assert tuple(chart.series[0].values) == rates
    assert chart.log_x
    expected = [sum(record.metric() for record in records[i : i + 2]) / 2 for i in (0, 2, 4)]
    assert [spread.mean for spread in chart.series[0].values.values()] == pytest.approx(expected)


def test_given_sections_come_first(make_record, tmp_path: Path) -> None:
    given = Section(
        "Overlap",
        (HeatMap("overlap <i>", ("a",), ("b",), np.array([[0.5]])),),
        text="First.\n\nSecond <b>.",
        parts=(Section("more", (Table("t", ("a",), (("1",),)),)),),
    )
    text, outline = read([make_record()], tmp_path, first=[given, given])
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert titles[:3] == ["Overlap", "Overlap", "Summary"]
    assert len(set(outline.ids)) == len(outline.ids)
    assert "<p>Second &lt;b&gt;.</p>" in text
    alone, _ = read([], tmp_path, first=[Section("Only this", text="words")])
    assert "sphere" not in alone.split("<body>")[1]


def test_500_runs_are_quick_and_small(make_record, tmp_path: Path) -> None:
    records = [
        make_record(method, plugins, seed=seed, stream=stream, buffer=buffer, tasks=tasks)
        for stream, tasks in (("seq-cifar10", 5), ("seq-cifar100", 10), ("seq-tinyimagenet", 20))
        for buffer in (200, 500)
        for method in ("co2l", "cclis", "cila", "er", "der", "gem", "gss", "gcr", "icarl")
        for plugins in ((), ("gplasc",))
        for seed in range(5)
    ][:500]
    assert len(records) == 500
    start = time.process_time()
    path = build_report(records, tmp_path / "report.html")
    assert time.process_time() - start < 30
    assert path.stat().st_size < 4_000_000


def test_100_variants_in_one_panel_are_drawn_in_part_and_listed_in_full(make_record, tmp_path: Path) -> None:
    records = [make_record(settings={"train": {"lr": 0.01 * i, "milestones": [i]}}) for i in range(1, 101)]
    text, outline = read(records, tmp_path)
    assert "10 best of 100" in outline.words
    summary = text.split("<table>")[1].split("</table>")[0]
    assert summary.count("<tr>") == 101


def test_nothing_to_report_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no complete run"):
        build_report([], tmp_path / "report.html")
    with pytest.raises(UserError, match="no complete run in"):
        write_report([tmp_path], tmp_path / "report.html")
    with pytest.raises(UserError, match="no folder"):
        write_report([tmp_path / "missing"], tmp_path / "report.html")


def test_streams_with_one_name_in_different_folders_stay_apart(make_record) -> None:
    records = [
        make_record(stream=f"folder:/{name}/data", accuracy=value) for name, value in (("a", 20), ("b", 70))
    ]
    sections = sections_of(records)
    (section,) = [s for s in sections if s.title == "Accuracy matrices"]
    first, second = section.parts
    assert first.folder != second.folder
    for part, record in zip(section.parts, records, strict=True):
        heat = part.blocks[0]
        assert isinstance(heat, HeatMap)
        assert list(heat.values[-1]) == pytest.approx(record["matrix"]["class_il"][-1])


def test_tables_and_figures_as_files(make_record, tmp_path: Path) -> None:
    sections = sections_of(grid(make_record, seeds=1))
    _write_blocks(sections, tmp_path, tables=True)
    (folder,) = tmp_path.glob("seq-cifar10-*-200-cpu")
    assert {path.suffix for path in folder.iterdir()} == {".md", ".tex", ".csv"}
    summary = (folder / "summary.md").read_text()
    assert "| co2l+gplasc |" in summary
    assert "**Final accuracy, percent: seq-cifar10, memory 200, cpu scale**" in summary
    assert "Not a reproduction" in summary
    few = [
        Section("s", parts=(replace(section.parts[0], blocks=section.parts[0].blocks[-1:]),))
        for section in sections
        if section.title in ("Summary", "Accuracy matrices")
    ]
    _write_blocks(few, tmp_path / "figures", tables=False)
    drawn = {path.name: path.stat().st_size for path in (tmp_path / "figures" / folder.name).iterdir()}
    names = ("gain", "matrix-er-gplasc-task-il")
    assert drawn.keys() == {f"{name}{suffix}" for name in names for suffix in (".svg", ".pdf")}
    assert min(drawn.values()) > 1000


def test_names_of_files_are_short_and_different(make_record, tmp_path: Path) -> None:
    records = [
        make_record(
            stream="folder:/a/very/long/path/" + "x" * 80,
            settings={"train": {"lr": 0.1 * i, "momentum": "0.9" * 30, "milestones": list(range(40 + i))}},
        )
        for i in (1, 2)
    ]
    sections = sections_of(records)
    names = [
        f"{part.folder}/{block.name}"
        for s in sections
        for part in s.all_parts()
        for block in part.blocks
        if block.name
    ]
    assert max(map(len, names)) < 100
    figures = [name for name in names if "/matrix-" in name]
    assert len(set(figures)) == len(figures) == 4


def test_command_writes_page_tables_and_figures(make_record, tmp_path: Path, capsys) -> None:
    records = [make_record(seed=seed) for seed in (0, 1)]
    store(records, tmp_path / "runs")
    page, tables = tmp_path / "page.html", tmp_path / "tables"
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "runs"), "-o", str(page), "--tables", str(tables)])
    assert end.value.code == 0
    assert page.exists()
    assert str(page) in capsys.readouterr().out
    with (tables / "metrics.csv").open() as file:
        values = {
            row["seed"]: float(row["value"])
            for row in csv.DictReader(file)
            if (row["scenario"], row["metric"]) == ("class_il", "forgetting")
        }
    assert values == {str(record.seed): record.metric("forgetting") for record in records}
    with (tables / "matrices.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2 * 2 * 6
    with pytest.raises(SystemExit) as end:
        main(["report", str(tmp_path / "nowhere")])
    assert end.value.code == 2
    assert "nowhere" in capsys.readouterr().err


def test_damaged_and_foreign_records_are_named_and_skipped(
    make_record, make_data, tmp_path: Path, capsys
) -> None:
    store([make_record(), make_record("er")], tmp_path)
    matrix = {"class_il": [[1.0], [2.0]], "task_il": "none"}
    foreign = [json.dumps(make_data("er") | change) for change in ({"matrix": matrix}, {"geometry": "none"})]
    texts = ["{}", "[]", '{"run_id": "a', "", "null", '{"run_id": 1, "settings": []}', *foreign]
    for number, text in enumerate(texts):
        bad = tmp_path / f"0bad{number}" / "record.json"
        bad.parent.mkdir()
        bad.write_text(text)
    write_report([tmp_path], tmp_path / "report.html")
    outline = Outline((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "2 runs of 2 configurations" in outline.words
    assert "Not on this page" in outline.words
    told = capsys.readouterr().err.splitlines()
    assert all(f"skipped: {tmp_path}/0bad{n}/record.json" in line for n, line in enumerate(told))
    assert len(told) == len(texts)
    assert "is not the record of a run (matrix.task_il" in told[-2]
    assert "is not the record of a run (geometry" in told[-1]


def test_a_folder_is_no_page(make_record, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a folder; give the name of the page"):
        build_report([make_record()], tmp_path)


def test_names_that_are_not_utf8_are_shown_as_escapes(make_record, tmp_path: Path) -> None:
    names = ["caf\udce9", "<b>x</b>", "\x1b[31m"]
    _, outline = read([make_record(stream="folder:\udcff", class_names=names)], tmp_path)
    assert "caf\\xe9, <b>x</b>, \\x1b[31m" in outline.words
    assert "folder:\\xff" in outline.words


def first_screen(records: list[Record]) -> str:
    panels = make_panels(records)
    findings = find_findings(panels)
    return "\n".join([*headline(panels), *(part for f in findings for part in (f.value, f.what, *f.details))])


def test_the_first_screen_answers(make_record) -> None:
    """Which method, which gain, how sure, and what the paper says; a gain is called sure from five seeds on."""
    for seeds, sure in ((3, "fewer than 5 pairs"), (5, "does not include 0")):
        records = [
            make_record("co2l", plugins, seed=seed, accuracy=60 if plugins else 50)
            for plugins in ((), ("gplasc",))
            for seed in range(seeds)
        ]
        words = first_screen(records)
        gains = [b.metric() - a.metric() for a, b in zip(records[:seeds], records[seeds:], strict=True)]
        assert f"{sum(gains) / seeds:+.2f}" in words
        assert "points of class-IL accuracy: co2l+gplasc" in words
        assert sure in words
        assert "The paper: +" in words
        assert "at full scale" in words
        marked = [
            cell.mark
            for row in blocks_of(sections_of(records)[0])[0].cells  # type: ignore[attr-defined]
            for cell in row
        ]
        assert ("better" in marked) == (seeds == 5)
    alone = first_screen([make_record("er", accuracy=50), make_record("der", accuracy=70)])
    assert "class-IL accuracy: der" in alone
    assert "the highest of 2" in alone


def bold(records: list[Record]) -> list[str]:
    rows = blocks_of(sections_of(records)[0])[0].cells  # type: ignore[union-attr]
    return [str(row[0].value) for row in rows if any(cell.mark == "best" for cell in row)]


def test_fewer_than_three_seeds_make_nothing_bold_and_no_headline(make_record) -> None:
    for seeds in (2, 3):
        records = [
            make_record("co2l", plugins, seed=seed, accuracy=60 if plugins else 50)
            for plugins in ((), ("gplasc",))
            for seed in range(seeds)
        ]
        assert bold(records) == (["co2l+gplasc"] if seeds == 3 else [])
        assert ("points of class-IL accuracy" in first_screen(records)) == (seeds == 3)
        assert ("in the tables only" in first_screen(records)) == (seeds == 2)


def test_a_method_that_sees_all_tasks_is_no_best_row(make_data) -> None:
    records = [make_data(name, seed=s, accuracy=50 + 40 * (name == "a")) for name in "abc" for s in range(3)]
    records[0:3] = [record | {"sees_all_tasks": True} for record in records[0:3]]
    parsed = [Record.parse(record) for record in records]
    assert "a" not in bold(parsed) != []
    assert "accuracy: a" not in first_screen(parsed)


def test_paper_scale_is_said_only_of_the_whole_protocol(make_record, tmp_path: Path) -> None:
    full = grid(make_record, scale="paper")
    (table,) = paper_tables(full)
    assert set(cells_of(table, "method")) >= {"co2l", "co2l+gplasc"}
    epochs = {"train": {"lr": 0.1, "milestones": [60, 75], "epochs": 1}}
    changed = grid(make_record, scale="paper", settings=epochs)
    assert paper_tables(changed) == []
    text, outline = read(changed, tmp_path)
    assert "paper scale, changed: train.lr, train.milestones, train.epochs" in outline.words
    assert "do not follow the published protocol" in outline.words
    assert "70.59" not in text


def test_an_own_file_that_is_called_like_a_published_method_has_no_published_number(make_data) -> None:
    records = [make_data("co2l", seed=seed, scale="paper") for seed in range(3)]
    assert paper_tables([Record.parse(record) for record in records])
    for record in records:
        record["settings"]["method"] = "./co2l.py"
    assert paper_tables([Record.parse(record) for record in records]) == []


def test_a_number_whose_buffer_is_not_stated_is_matched_to_none(make_record) -> None:
    (table,) = paper_tables(grid(make_record, scale="paper"))
    assert "the table of replay methods" not in cells_of(table, "published in")


def test_a_plugin_in_another_than_its_published_form_is_called_so(make_data) -> None:
    records = [make_data("co2l", ("gplasc",), seed=seed, scale="paper") for seed in range(3)]
    records += [make_data("co2l", seed=seed, scale="paper") for seed in range(3)]
    for record in records:
        record["settings"]["model"] = {"features": "signed"}
    parsed = [Record.parse(record) for record in records]
    rows = blocks_of(sections_of(parsed)[0])[0].cells  # type: ignore[union-attr]
    assert [row[0].value for row in rows] == ["co2l", "co2l+gplasc, signed features"]
    (table,) = paper_tables(parsed)
    assert set(cells_of(table, "method")) == {"co2l"}


def test_settings_in_which_rows_differ_are_listed(make_record, make_data) -> None:
    er = make_data("er")
    er["settings"]["train"] = {"lr": 0.5, "milestones": [60, 75]}
    (section,) = [s for s in sections_of([make_record(), Record.parse(er)]) if s.title == "Summary"]
    assert "Rows differ in train.lr: 0.1 (co2l), 0.5 (er)." in section.notes


def test_many_gains_are_summed_up_for_each_plugin(make_record) -> None:
    methods = ("co2l", "er", "der", "icarl")
    gains = {(): 0, ("gplasc",): -2, ("gplasc-plus",): 6}
    records = [
        make_record(method, plugins, seed=seed, accuracy=50 + gain + 0.1 * seed)
        for method in methods
        for plugins, gain in gains.items()
        for seed in range(5)
    ]
    words = first_screen(records)
    for plugin, place in (
        ("gplasc", "0 are a certain gain and 4 a"),
        ("gplasc-plus", "4 are a certain gain and 0 a"),
    ):
        (sentence,) = re.findall(rf"With {plugin}, class-IL .*? without 0\)", words)
        assert "over 4 comparisons" in sentence
        assert place in sentence


def test_pairs_below_the_threshold_are_drawn_only_when_there_are_any(
    usual, make_data, tmp_path: Path
) -> None:
    data = make_data("co2l", ("gplasc",))
    data["geometry"][1]["pairs_below_threshold"] = 0.5
    _, some = read([Record.parse(data)], tmp_path)
    for words, drawn in ((usual[1].words, False), (some.words, True)):
        assert ("farther apart than their region allows" in words) == drawn
        assert ("No pair of classes" in words) != drawn


def test_matrices_show_what_was_lost_since_a_task_was_learned(make_data) -> None:
    data = make_data(tasks=2)
    data["matrix"]["class_il"] = [[90.0, None], [60.0, 80.0]]
    (section,) = [s for s in sections_of([Record.parse(data)]) if s.title == "Accuracy matrices"]
    heat = blocks_of(section)[0]
    assert isinstance(heat, HeatMap)
    assert np.array_equal(heat.shades, [[0.0, math.nan], [-30.0, 0.0]], equal_nan=True)
    assert heat.cells()[1][0] == ("60.0", -1.0)
