"""`holdfast savepoint`: beside a running job, restored from anywhere."""

import shutil
import signal

from tests.cli.processes import Shell, batch, stream, two_pipelines


def test_a_savepoint_beside_a_running_job_is_taken_and_the_job_goes_on(shell: Shell) -> None:
    shell.write(stream())
    live = shell.start("run", "job.conf")
    live.wait_for("kind=", times=20)

    taken = shell.run("savepoint", "it")
    live.wait_for("kind=", times=60)
    live.send(signal.SIGINT)

    assert taken.code == 0, taken.err
    assert "holds checkpoint 1/" in taken.out
    assert live.end().code == 5


def test_a_savepoint_is_restored_from_wherever_it_was_copied(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    taken = shell.run("savepoint", "job.conf").out.splitlines()[0]
    elsewhere = shell.folder / "elsewhere"
    shutil.copytree(shell.data / "checkpoints" / taken, elsewhere)
    shutil.rmtree(shell.data)

    ended = shell.run("run", "job.conf", "--restore", f"path:{elsewhere}")

    assert ended.code == 0, ended.err
    assert ended.rows == [], "the savepoint was of a finished job"
    assert str(elsewhere) in ended.err


def test_a_savepoint_holds_every_pipeline(shell: Shell) -> None:
    shell.write(two_pipelines())
    shell.run("run", "job.conf")

    taken = shell.run("savepoint", "it")
    ended = shell.run("run", "job.conf", "--restore", "savepoint")

    assert "1/" in taken.out
    assert "2/" in taken.out
    assert (ended.code, ended.rows) == (0, []), ended.err


def test_a_job_that_nobody_knows_has_no_savepoint(shell: Shell) -> None:
    ended = shell.run("savepoint", "nobody")

    assert ended.code == 1
    assert "Cannot find job nobody" in ended.err
    assert not shell.data.exists()
