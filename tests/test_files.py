from pathlib import Path

import pytest

from gplasc._io.files import atomic_path, remove_leftovers, temporary_folder, write_atomic
from gplasc.errors import UserError


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


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    left = []

    def killed() -> None:
        with atomic_path(tmp_path / "record.json") as temporary:
            temporary.write_text("half")
            left.append(
                temporary.rename(temporary.with_name(temporary.name + "x"))
            )  # survives the cleaning up
            temporary.write_text("whole")

    killed()
    left[0].rename(left[0].with_name(left[0].name.removesuffix("x")))
    folder = tmp_path / ".decoded.0a1b2c3d.tmp"
    folder.mkdir()
    (folder / "images").write_bytes(b"half")
    for name in (".hidden", ".config.json", "data.tmp", ".x.tmp"):
        (tmp_path / name).write_text("mine")
    assert len(remove_leftovers(tmp_path)) == 2
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        ".config.json",
        ".hidden",
        ".x.tmp",
        "data.tmp",
        "record.json",
    ]
    assert remove_leftovers(tmp_path / "nothing") == []


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "folder"
    (tmp_path / "deep" / ".folder.0a1b2c3d.tmp").mkdir(parents=True)

    def half_way() -> None:
        with temporary_folder(target) as temporary:
            (temporary / "a").write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        half_way()
    assert list(target.parent.iterdir()) == []
    for text in ("first", "second"):
        with temporary_folder(target) as temporary:
            (temporary / "a").write_text(text)
        assert (target / "a").read_text() == text
    assert list(target.parent.iterdir()) == [target]
