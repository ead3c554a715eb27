"""`holdfast run`: what it prints, which code it ends with, and that it goes on from where it stood."""

import signal

import pytest

from tests.cli.processes import Shell, batch, stream, two_pipelines

FAILS = """Assert { rules { row_rules = [ { rule_type = MIN_ROW, rule_value = 100 } ] } }"""


def test_a_finished_job_prints_its_rows_and_what_it_did(shell: Shell) -> None:
    shell.write(batch(5))

    ended = shell.run("run", "job.conf")

    assert ended.code == 0, ended.err
    assert len(ended.rows) == 5
    assert "Job it FINISHED" in ended.err
    assert "source-0-fakesource: 5 rows" in ended.err


def test_a_finished_job_run_again_says_so_and_does_nothing(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    before = shell.everything()

    again = shell.run("run", "job.conf")

    assert (again.code, again.rows) == (0, [])
    assert "has finished before: nothing was read" in again.err
    assert "--restore none" in again.err
    assert shell.everything() == before


def test_restore_none_begins_a_new_generation(shell: Shell) -> None:
    shell.write(batch())
    first = shell.run("run", "job.conf")

    again = shell.run("run", "job.conf", "--restore", "none")

    assert again.code == 0
    assert again.rows == first.rows
    assert shell.stored()[0]["generation"] == 2


def test_a_stream_stops_after_its_epoch_and_goes_on_without_a_gap(shell: Shell) -> None:
    shell.write(stream())
    runs = []
    for _ in range(2):
        live = shell.start("run", "job.conf")
        live.wait_for("kind=", times=20)
        live.send(signal.SIGINT)
        runs.append(live.end())

    assert [run.code for run in runs] == [5, 5]
    assert "Stopping after the current epoch" in runs[0].err
    assert "STOPPED" in runs[0].err
    printed = [row for run in runs for row in run.rows]
    assert shell.stored()[0]["counts"]["source-0-fakesource"][0] == len(printed)
    assert len(set(printed)) == len(printed)


def test_a_second_signal_ends_at_once(shell: Shell) -> None:
    shell.write(batch(500, sink="Console { log.print.delay.ms = 1000 }"))
    live = shell.start("run", "job.conf")
    live.wait_for("kind=")

    live.send(signal.SIGINT)
    live.wait_for("Stopping after the current epoch")
    live.send(signal.SIGINT)
    ended = live.end()

    assert ended.code == 6, ended.err
    assert "CANCELED" in ended.err
    assert not shell.stored()[0]["completed"]


def test_a_killed_job_goes_on_from_its_newest_checkpoint(shell: Shell) -> None:
    shell.write(stream())
    live = shell.start("run", "job.conf")
    live.wait_for("kind=", times=50)
    live.send(signal.SIGKILL)
    killed = live.end()
    counts = next(f["counts"] for f in shell.stored() if f["counts"])
    kept = counts["source-0-fakesource"][0]

    repeated = killed.rows[kept:]
    live = shell.start("run", "job.conf")
    live.wait_for("kind=", times=len(repeated) + 1)
    live.send(signal.SIGTERM)
    ended = live.end()

    assert ended.code == 5
    assert "goes on from checkpoint" in ended.err
    assert kept <= len(killed.rows)
    assert ended.rows[: len(repeated)] == repeated


def test_a_live_job_is_refused_with_its_process(shell: Shell) -> None:
    shell.write(stream())
    live = shell.start("run", "job.conf")
    live.wait_for("kind=")

    second = shell.run("run", "job.conf")
    live.send(signal.SIGINT)

    assert second.code == 4
    assert f"it is RUNNING in process {live.process.pid}" in second.err
    assert second.err.count("\n") <= 2
    assert live.end().code == 5


def test_a_failed_job_tells_why_in_one_message(shell: Shell) -> None:
    shell.write(batch(5, sink=FAILS))

    ended = shell.run("run", "job.conf")

    assert ended.code == 1, ended.err
    assert "Traceback" not in ended.err
    assert "FAILED" in ended.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env { job.mode = ", "job.conf:1"),
        ('env { job.mode = "NEVER" }\nsource { FakeSource {} }\nsink { Console {} }', "job.conf:1"),
        ("source { FakeSourc {} }\nsink { Console {} }", "FakeSource"),
        ("sink { Console {} }", "source"),
        (batch(job_id="a/b"), "expected letters, digits"),
        (batch(job_id="savepoint"), "expected another name"),
        ('env { restore = "checkpoint:x" }\nsource { FakeSource {} }\nsink { Console {} }', "auto"),
    ],
)
def test_a_wrong_job_file_names_the_place_and_what_was_expected(
    shell: Shell, text: str, said: str
) -> None:
    shell.write(text)

    ended = shell.run("run", "job.conf")

    assert ended.code == 3, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.conf"], "Cannot read nothing.conf: No such file"),
        (["."], "Cannot read"),
        (["job.conf", "--job-id", "../x"], "Cannot read job id"),
        (["job.conf", "--restore", "yesterday"], "expected auto, latest"),
        (["job.conf", "--restore", "checkpoint:2/1"], "pipelines 1 and not 2"),
        (["job.conf", "--on-missing", "maybe"], "expected fail, previous"),
        (["job.conf", "-i", "x"], "expected NAME=VALUE"),
    ],
)
def test_a_wrong_argument_is_one_message(shell: Shell, arguments: list[str], said: str) -> None:
    shell.write(batch())

    ended = shell.run("run", *arguments)

    assert ended.code == 3, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not shell.data.exists() or "jobs" not in shell.everything()


def test_text_that_is_no_utf8_is_one_message(shell: Shell) -> None:
    (shell.folder / "job.conf").write_bytes(b"env { \xff\xfe }")

    ended = shell.run("run", "job.conf")

    assert ended.code == 3
    assert "not UTF-8" in ended.err


def test_a_data_folder_that_cannot_be_made_is_one_message(shell: Shell) -> None:
    shell.write(batch())
    shell.data.write_text("a file")

    ended = shell.run("run", "job.conf")

    assert ended.code == 1
    assert "Cannot lock the job" in ended.err
    assert "defect" not in ended.err


def test_a_corrupt_tip_is_refused_by_name_with_the_way_out(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    number = shell.break_tip()

    ended = shell.run("run", "job.conf")

    assert ended.code == 4, ended.err
    assert f"checkpoint {number} of pipeline it/1" in ended.err
    assert "--on-missing" in ended.err


def test_on_missing_previous_goes_on_behind_a_corrupt_tip(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    number = shell.break_tip()

    ended = shell.run("run", "job.conf", "--on-missing", "previous")

    assert (ended.code, ended.rows) == (0, [])
    assert f"checkpoint {number} passed over" in ended.err


def test_on_missing_fresh_begins_anew_behind_a_corrupt_tip(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    shell.break_tip()

    ended = shell.run("run", "job.conf", "--on-missing", "fresh")

    assert ended.code == 0, ended.err
    assert len(ended.rows) == 5


def test_on_missing_latest_skips_to_the_end_behind_a_corrupt_tip(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")
    shell.break_tip()

    ended = shell.run("run", "job.conf", "--on-missing", "latest")

    assert (ended.code, ended.rows) == (0, []), ended.err
    assert "missing what lies before" in ended.err


def test_restore_checkpoint_goes_back(shell: Shell) -> None:
    shell.write(batch())
    first = shell.run("run", "job.conf")
    claim = shell.stored()[-1]["checkpointId"]

    back = shell.run("run", "job.conf", "--restore", f"checkpoint:{claim}")

    assert back.code == 0, back.err
    assert back.rows == first.rows
    assert "a second time" in back.err


def test_a_checkpoint_that_is_not_there_is_refused(shell: Shell) -> None:
    shell.write(batch())
    shell.run("run", "job.conf")

    ended = shell.run("run", "job.conf", "--restore", "checkpoint:77")

    assert ended.code == 4
    assert "there is no checkpoint 77; `holdfast checkpoints` lists what there is" in ended.err


def test_a_bare_checkpoint_is_refused_where_two_pipelines_have_one(shell: Shell) -> None:
    shell.write(two_pipelines())
    shell.run("run", "job.conf")

    ended = shell.run("run", "job.conf", "--restore", "checkpoint:1")

    assert ended.code == 3, ended.err
    assert "checkpoint:<pipeline>/<id>" in ended.err


def test_one_pipeline_goes_back_and_the_other_stays(shell: Shell) -> None:
    shell.write(two_pipelines(3))
    first = shell.run("run", "job.conf")
    assert (first.code, len(first.rows)) == (0, 6), first.err

    back = shell.run("run", "job.conf", "--restore", "checkpoint:2/1")

    assert (back.code, len(back.rows)) == (0, 3), back.err


def test_when_one_pipeline_is_refused_the_other_is_not_touched(shell: Shell) -> None:
    shell.write(two_pipelines(3))
    shell.run("run", "job.conf")
    shell.break_tip(pipeline=2)
    before = shell.everything()

    ended = shell.run("run", "job.conf")

    assert ended.code == 4, ended.err
    assert shell.everything().keys() == before.keys()
