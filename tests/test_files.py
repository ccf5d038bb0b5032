from pathlib import Path

import pytest

from gplasc.errors import UserError
from gplasc.files import atomic_path, write_atomic


def test_written_whole_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = write_atomic(tmp_path / "a" / "b" / "text.txt", "grün\n")
    assert path.read_bytes() == "grün\n".encode()
    write_atomic(path, b"\x00\x01")
    assert path.read_bytes() == b"\x00\x01"
    assert [entry.name for entry in path.parent.iterdir()] == ["text.txt"]


def test_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write_atomic(tmp_path / "data.json", "old")

    def half_way() -> None:
        with atomic_path(path) as temporary:
            assert temporary.suffix == ".json"
            temporary.write_text("ne")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        half_way()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.json"]


def test_unwritable_place_is_the_users_to_mend(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_atomic(blocker / "below.txt", "x")


def test_a_block_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"cannot write .*nothing\.txt"),
        atomic_path(tmp_path / "nothing.txt"),
    ):
        pass
