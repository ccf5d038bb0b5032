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
    assert title == "After the last task, percent: mean (seed 0, seed 1)"
    assert max(map(len, (head, rule, plain, with_gplasc, with_plus))) <= 80
    records, _ = load_records([tmp_path])
    for title, line in (("co2l", plain), ("co2l+gplasc", with_gplasc), ("co2l+gplasc-plus", with_plus)):
        each = [record.metric() for record in sorted(records, key=lambda r: r.seed) if record.title == title]
        assert line.startswith(f"{title} ")
        assert f"{sum(each) / 2:.1f} ({each[0]:.1f}, {each[1]:.1f})" in line
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    first = re.findall(r'<figure class="([^"]*)"><p class="title">([^<]*)<', text)[:4]
    assert [name for kind, name in first if kind == "card sphere"] == [
        "co2l, seed 0", "co2l+gplasc, seed 0", "co2l+gplasc-plus, seed 0",
    ]  # fmt: skip
    for record in records:
        if record.seed == 0:  # measured from the stored network, as when the run was evaluated
            assert f"{record.geometry[-1].center_cosine_mean:.2f}".replace("-", "−") in text
    assert text.count("Measured at smoke scale") == 1
