"""The benchmark of conflicts' levels runs and says what it found; nothing here is about how well or how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.bench import merge_levels


@pytest.mark.skipif(merge_levels.shutil.which("node") is None, reason="the program is in JavaScript")
def test_the_figures_of_one_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_levels, "TIMES", 1)
    labels = tmp_path / "labels.json"
    assert merge_levels.main(["--program", "jobs", "--labels", str(labels), "--wrong"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert len(json.loads(labels.read_text())) > 60
    for level, pairs in (("level_2", 120), ("level_3", 63)):
        rates = figures[level]["all"]
        assert rates["pairs"] == figures[level]["ms"]["n"] == pairs
        wrong = figures["wrong"][level]
        assert (len(wrong["missed"]), len(wrong["false"])) == (rates["missed"], rates["false"])
        assert 0 < rates["positive"] < pairs and figures[level]["balanced"]["pairs"] == 2 * rates["positive"]
    assert figures["level_2_on_long_files"]["lines"] > 3_500 and figures["skipped"] == {}
