"""Who takes the lead, keeps it, or follows."""

from holdfast.decide.leadership import Lead, decide_leadership
from holdfast.model.lease import Lease

TTL_MS = 2_000


def decide(lease: Lease | None, *, now_ms: int) -> Lead:
    return decide_leadership(lease, me="a", now_ms=now_ms, ttl_ms=TTL_MS)


def of(holder: str, *, until_ms: int) -> Lease:
    return Lease(3, holder, f"http://{holder}", until_ms)


def test_where_nobody_has_ever_led_the_lead_is_taken() -> None:
    assert decide(None, now_ms=0) is Lead.TAKE


def test_who_leads_renews() -> None:
    assert decide(of("a", until_ms=TTL_MS), now_ms=TTL_MS - 1) is Lead.RENEW


def test_who_let_its_own_lease_run_out_takes_a_new_term() -> None:
    assert decide(of("a", until_ms=TTL_MS), now_ms=TTL_MS) is Lead.TAKE


def test_another_s_lease_is_respected_until_it_ends() -> None:
    assert decide(of("b", until_ms=TTL_MS), now_ms=TTL_MS - 1) is Lead.FOLLOW
    assert decide(of("b", until_ms=TTL_MS), now_ms=TTL_MS) is Lead.TAKE


def test_a_lease_given_up_is_taken_at_once() -> None:
    assert decide(of("b", until_ms=0), now_ms=1) is Lead.TAKE


def test_nobody_waits_for_an_end_that_a_wrong_clock_has_set() -> None:
    assert decide(of("b", until_ms=2 * TTL_MS), now_ms=0) is Lead.FOLLOW
    assert decide(of("b", until_ms=2 * TTL_MS + 1), now_ms=0) is Lead.TAKE
