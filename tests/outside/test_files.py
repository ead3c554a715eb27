"""Files of this machine: whole or absent, one creator, and one clear message when the storage fails."""

import multiprocessing
import resource
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from holdfast.outside.files import AlreadyThere, LocalFiles, NotThere, StorageFailed

CREATORS = 64


def _create(root: Path, number: int, go: Event, won: "multiprocessing.Queue[int]") -> None:
    go.wait()
    try:
        LocalFiles(root).create_exclusive("a/b/it", f"creator {number}".encode() * 1_000)
        won.put(number)
    except AlreadyThere:
        won.put(-1)


def test_of_64_processes_that_create_one_file_exactly_one_succeeds(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    go, won = context.Event(), context.Queue()
    creators = [
        context.Process(target=_create, args=(tmp_path, number, go, won))
        for number in range(CREATORS)
    ]
    for creator in creators:
        creator.start()

    go.set()
    results = [won.get(timeout=120) for _ in creators]
    for creator in creators:
        creator.join()

    winners = [number for number in results if number >= 0]
    assert len(winners) == 1
    assert (tmp_path / "a/b/it").read_bytes() == f"creator {winners[0]}".encode() * 1_000
    assert [item.name for item in (tmp_path / "a/b").iterdir()] == ["it"]


def test_a_second_create_changes_nothing(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.create_exclusive("it", b"first")

    with pytest.raises(AlreadyThere):
        files.create_exclusive("it", b"second")

    assert files.read("it") == b"first"


def test_a_write_replaces(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a/it", b"first")
    files.write("a/it", b"second")

    assert files.read("a/it") == b"second"


def test_leftovers_of_a_crash_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-manifest.json.0a1b").write_bytes(b"half")

    assert LocalFiles(tmp_path).list_folder("") == []


def test_a_folder_is_listed_by_name_with_sizes(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("b", b"12")
    files.write("a/c", b"1")

    found = [(item.name, item.is_folder) for item in files.list_folder("")]

    assert found == [("a", True), ("b", False)]
    assert files.list_folder("")[1].size == 2


def test_what_is_not_there_is_empty_removed_already_and_not_read(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)

    assert files.list_folder("nothing") == []
    files.remove("nothing")
    with pytest.raises(NotThere, match="there is no such file"):
        files.read("nothing")


def test_a_folder_is_removed_with_all_in_it_and_leaves_nothing(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    files.write("a/b/c", b"1")

    files.remove("a")

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_message_and_leaves_no_half_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        with pytest.raises(StorageFailed, match=r"Cannot create .*it: File too large\. Free space"):
            LocalFiles(tmp_path).create_exclusive("it", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")

    with pytest.raises(StorageFailed, match="Cannot create"):
        LocalFiles(tmp_path).create_exclusive("a/b", b"x")
