"""The chain is kept short by what is in storage, and tidying never stands in the way."""

from holdfast.checkpoint.chain import Chain
from holdfast.model.checkpoints import CheckpointKind
from holdfast.outside.files import FileInfo, StorageFailed
from holdfast.runtime.keeping import TIDY_EVERY_MS, Keeping
from holdfast.testing.crashes import MemoryFiles, VirtualClock
from tests.checkpoint.links import a_checkpoint


def filled(files: MemoryFiles, count: int) -> Chain:
    chain = Chain(files, "orders", 1)
    for number in range(1, count + 1):
        kind = CheckpointKind.CLAIM if number == 2 else CheckpointKind.EPOCH
        chain.extend(a_checkpoint(number, kind=kind))
    return chain


def keeping_of(chain: Chain, clock: VirtualClock) -> Keeping:
    return Keeping(chain, clock, interval_ms=1_000, retained_max=2)


def test_what_an_earlier_process_left_is_tidied_too() -> None:
    clock = VirtualClock()
    chain = filled(MemoryFiles(clock), 10)

    keeping_of(chain, clock).after_commit(chain.read(10))

    assert chain.list_numbers() == [2, 8, 9, 10]


def test_it_looks_at_most_so_often_and_at_the_end() -> None:
    clock = VirtualClock()
    chain = filled(MemoryFiles(clock), 4)
    keeping = keeping_of(chain, clock)
    keeping.after_commit(chain.read(4))
    chain.extend(a_checkpoint(5))

    keeping.after_commit(a_checkpoint(5))
    assert 3 in chain.list_numbers()
    clock.advance(TIDY_EVERY_MS)
    keeping.after_commit(a_checkpoint(5))
    assert 1 not in chain.list_numbers()


def test_what_is_broken_is_left_for_people_to_see() -> None:
    clock = VirtualClock()
    files = MemoryFiles(clock)
    chain = filled(files, 10)
    files.write("orders/1/3/manifest.json", b"{")

    keeping_of(chain, clock).at_end(chain.read(10))

    assert chain.list_numbers() == [2, 3, 8, 9, 10]


class Stubborn(MemoryFiles):
    """Cannot remove, and cannot list when told so."""

    lists = True

    def remove(self, path: str) -> None:
        raise StorageFailed("Cannot remove it: Permission denied.")

    def list_folder(self, path: str) -> list[FileInfo]:
        if not self.lists:
            raise StorageFailed("Cannot list it: Permission denied.")
        return super().list_folder(path)


def test_a_storage_that_fails_at_tidying_fails_no_epoch() -> None:
    clock = VirtualClock()
    files = Stubborn(clock)
    chain = filled(files, 10)
    keeping = keeping_of(chain, clock)

    keeping.at_end(chain.read(10))
    tip = chain.read(10)
    files.lists = False
    keeping.at_end(tip)

    files.lists = True
    assert len(chain.list_numbers()) == 10
