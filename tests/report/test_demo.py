import re
from pathlib import Path

import pytest

from gplasc.results.record import load_records
from gplasc.study import demo


def test_demo_ends_with_six_lines_and_a_page_that_begins_with_the_spheres(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "_SETTINGS", {"model.features": "signed"})
    assert demo.run_demo(tmp_path, scale="smoke") == 0
    *_, page, title, head, rule, plain, with_gplasc, with_plus = capsys.readouterr().out.splitlines()
    assert page.endswith(str(tmp_path / "report.html"))
    assert title == "After the last task, percent: seed 0, seed 1"
    assert max(map(len, (head, rule, plain, with_gplasc, with_plus))) <= 80
    records, _ = load_records([tmp_path])
    names = ("co2l", "co2l+gplasc, signed features", "co2l+gplasc-plus")
    for name, line in zip(names, (plain, with_gplasc, with_plus), strict=True):
        each = [record.metric() for record in sorted(records, key=lambda r: r.seed) if record.name == name]
        assert line.startswith(f"{name} ")
        assert f" {each[0]:.1f}, {each[1]:.1f} " in line
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    first = re.findall(r'<figure class="([^"]*)"><p class="title">([^<]*)<', text)[:4]
    assert [name for kind, name in first if kind == "card sphere"] == [f"{name}, seed 0" for name in names]
    for record in records:
        if record.seed == 0:  # measured from the stored network, as when the run was evaluated
            assert f"{record.geometry[-1].center_cosine_mean:.2f}".replace("-", "−") in text
    assert text.count("Measured at smoke scale") == 1
