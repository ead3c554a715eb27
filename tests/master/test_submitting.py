"""What is stored of a submission."""

from __future__ import annotations

from pathlib import Path

from holdfast.master.submitting import Submission, describe
from holdfast.spec.env import derive_job_id
from holdfast.testing.builders import a_spec, an_env


def _id_of(given: Submission, job_id: str | None = None) -> str:
    spec = a_spec({}, {}, an_env(job_id=job_id, job_name="orders"))
    return describe(given, spec, now_ms=0).job_id


def test_the_same_file_is_the_same_job_as_it_is_for_run() -> None:
    """F069: handed in again it goes on, or is refused while it lives; it never begins beside itself."""
    given = Submission("", file="/jobs/orders.conf")

    assert _id_of(given) == _id_of(given)
    assert _id_of(given) == derive_job_id(Path("/jobs/orders.conf"), "orders")
    assert _id_of(given) != _id_of(Submission("", file="/jobs/bills.conf"))


def test_an_id_that_was_given_comes_first_then_that_of_the_job_file() -> None:
    given = Submission("", job_id="mine", file="/jobs/orders.conf")

    assert _id_of(given, "its-own") == "mine"
    assert _id_of(Submission("", file="/jobs/orders.conf"), "its-own") == "its-own"


def test_the_same_submission_without_an_id_is_the_same_job() -> None:
    given = Submission("", submission="s1")

    assert _id_of(given) == _id_of(given)
    assert _id_of(given) != _id_of(Submission("", submission="s2"))


def test_what_comes_from_no_file_and_names_no_id_is_a_job_of_its_own() -> None:
    assert _id_of(Submission("")) != _id_of(Submission(""))
