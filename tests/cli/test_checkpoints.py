"""`holdfast checkpoints` lists what is kept, with positions in words."""

from tests.cli.processes import Shell, batch


def test_the_tip_comes_first_and_positions_are_words(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")

    listed = shell.run("checkpoints", "job.conf")

    lines = listed.out.splitlines()
    assert lines[0] == "Job it, not running"
    assert "tip, completed" in lines[1]
    assert lines[2].strip() == "source-0-fakesource: done"


def test_a_broken_checkpoint_is_listed_as_broken(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    number = shell.break_tip()

    listed = shell.run("checkpoints", "it")

    assert f"checkpoint 1/{number}  broken: " in listed.out


def test_a_job_that_nobody_knows_is_one_message(shell: Shell) -> None:
    ended = shell.run("checkpoints", "nobody")

    assert ended.code == 1
    assert "Cannot find job nobody" in ended.err


def test_a_name_that_leads_out_of_the_data_folder_is_refused(shell: Shell) -> None:
    ended = shell.run("checkpoints", "../../etc")

    assert ended.code == 3
    assert "expected letters, digits" in ended.err
