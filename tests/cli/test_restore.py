"""`holdfast restore plan` says what a restore would do and writes nothing."""

import json

from tests.cli.processes import Shell, batch, two_pipelines


def test_a_plan_says_from_where_and_writes_nothing(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    before = shell.everything()

    planned = shell.run("restore", "plan", "job.conf")

    assert planned.code == 0, planned.err
    assert "goes on from checkpoint" in planned.out
    assert shell.everything() == before


def test_a_plan_of_a_job_never_run_makes_no_data_folder(shell: Shell) -> None:
    shell.write(batch())

    planned = shell.run("restore", "plan", "job.conf")

    assert planned.code == 0, planned.err
    assert "starts fresh" in planned.out
    assert not shell.data.exists()


def test_a_plan_that_would_be_refused_says_so_by_its_code(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    number = shell.break_tip()

    planned = shell.run("restore", "plan", "job.conf", "--json")

    assert planned.code == 4
    report = json.loads(planned.out)[0]
    assert report["refused"] is True
    assert report["considered"][0][:2] == [f"checkpoint {number}", "refused"]


def test_a_plan_of_one_pipelines_checkpoint_leaves_the_other_at_its_tip(shell: Shell) -> None:
    shell.write(two_pipelines())
    shell.run("run", "job.conf")

    planned = shell.run("restore", "plan", "job.conf", "--restore", "checkpoint:2/1")

    assert planned.code == 0, planned.err
    assert "Restore of it/2 (checkpoint:2/1): goes on from checkpoint 1" in planned.out
    assert "Restore of it/1 (auto)" in planned.out
