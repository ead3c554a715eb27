"""Which checkpoints stay."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.decide.retention import Kept, decide_retention


def epochs(*at_ms: int) -> list[Kept]:
    return [Kept(number, at, is_claim=False) for number, at in enumerate(at_ms, start=1)]


def remove(found: list[Kept], *, retained_max: int = 10) -> list[int]:
    return decide_retention(found, interval_ms=1_000, retained_max=retained_max)


chains = st.lists(st.tuples(st.integers(0, 20_000), st.booleans()), max_size=40).map(
    lambda found: [Kept(n, at, claim) for n, (at, claim) in enumerate(found, start=1)]
)


def test_of_one_interval_the_newest_stays() -> None:
    assert remove(epochs(0, 100, 900, 1_000, 1_100)) == [1, 2]


def test_beside_the_tip_only_so_many_stay() -> None:
    assert remove(epochs(0, 1_000, 2_000, 3_000, 4_000), retained_max=2) == [1, 2]


def test_an_empty_chain_has_nothing_to_remove() -> None:
    assert remove([]) == []


@given(found=chains, retained_max=st.integers(0, 5))
def test_neither_the_tip_nor_a_claim_is_ever_removed(found: list[Kept], retained_max: int) -> None:
    gone = remove(found, retained_max=retained_max)

    kept = [one for one in found if one.number not in gone]
    assert kept[-1:] == found[-1:]
    assert [one for one in found if one.is_claim] == [one for one in kept if one.is_claim]


@given(found=chains, retained_max=st.integers(0, 5))
def test_the_chain_is_bounded_by_the_limit_and_its_claims(
    found: list[Kept], retained_max: int
) -> None:
    gone = remove(found, retained_max=retained_max)

    left = [one for one in found if one.number not in gone and not one.is_claim]
    assert len(left) <= retained_max + 1


@given(found=chains, retained_max=st.integers(0, 5))
def test_what_was_tidied_once_is_tidy(found: list[Kept], retained_max: int) -> None:
    gone = remove(found, retained_max=retained_max)

    left = [one for one in found if one.number not in gone]
    assert remove(left, retained_max=retained_max) == []
