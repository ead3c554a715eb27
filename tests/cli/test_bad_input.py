"""Bad input of every kind ends in one message that says what, where and what next, and in the code that is documented.

Most jobs run in this process; those that need other permissions, no room or a broken pipe are processes of their own.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from holdfast.cli.main import main
from holdfast.testing.servers import Database
from tests.cli.processes import Ended, Shell, batch, stream
from tests.connectors.http_server import Server

TWO = "schema { fields { id = bigint, name = string } }"
FAKE = f"FakeSource {{ plugin_output = fake, row.num = 5, {TWO} }}"
CONFIG_ERROR, FAILED, REFUSED = 3, 1, 4


def a_job(source: str, sink: str = "Console {}", transform: str = "") -> str:
    """Retries wait for nothing."""
    return f"""
        env {{ job.mode = BATCH, job.id = it, job.retry.times = 1, job.retry.interval.seconds = 0 }}
        source {{ {source} }}
        transform {{ {transform} }}
        sink {{ {sink} }}
    """


def a_file(path: Path, kind: str, more: str = TWO) -> str:
    return f'LocalFile {{ path = "{path}", file_format_type = {kind}, {more} }}'


Run = Callable[..., Ended]


@pytest.fixture
def run(shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`holdfast run job.conf` in this process, or another command."""

    def run_here(text: str, *arguments: str) -> Ended:
        monkeypatch.chdir(shell.folder)
        shell.write(text)
        code = main([*(arguments or ("run", "job.conf")), "--data", str(shell.data)])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run_here


def told(ended: Ended, code: int, *said: str) -> None:
    """One message, for people, with all of this in it."""
    assert ended.code == code, ended.err
    everything = ended.out + ended.err
    assert "Traceback" not in everything
    assert "defect" not in everything
    messages = [line for line in ended.err.splitlines() if line.startswith("Cannot ")]
    assert len(messages) == 1, ended.err
    for part in said:
        assert part in messages[0]


# ---------------------------------------------------------------------------------------------- job files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env {\nsource {\n", "job.conf:3: expected '}' to close what line 2 opened"),
        ("a = ${b}\nb = ${a}", "job.conf:1: ${b} refers to itself"),
        ('include required("gone.conf")', "job.conf:1: there is no file 'gone.conf'"),
        ('include "job.conf"', "job.conf:1: 'job.conf' includes itself"),
        ("", "job.conf: there is no source: a job needs one at least"),
        ("[1, 2]", "expected blocks (env, source, transform, sink), found a list"),
        (batch(sink="Consol {}"), "there is no sink 'Consol'. Did you mean 'Console'?"),
        (batch(sink="Console { log.prnt.data = true }"), "Did you mean 'log.print.data'?"),
        (batch(env="parallelism = many"), "expected a whole number, found 'many'"),
        (batch(env="parallelism = 0"), "option 'parallelism' is 0; 1 is the least"),
        (batch().replace("bigint", "biginteger"), "'biginteger' is not a type; known are string"),
        (batch().replace("bigint", "${kind}"), "variable 'kind' has no value. Give it one with -i"),
        (a_job(FAKE, 'Jdbc { url = "jdbc:nosql:x" }'), "jdbc:nosql"),
        (a_job(FAKE, transform="Sql { query = \"selec id frm x\" }"), "the query cannot be read"),
        (a_job(FAKE, transform='Python { source_code = "def f(:" }'), "is wrong in its line 1"),
    ],
)  # fmt: skip
def test_a_wrong_job_file_is_told_with_its_line(run: Run, text: str, said: str) -> None:
    checked = run(text, "check", "job.conf")
    ended = run(text)

    assert checked.code == ended.code == CONFIG_ERROR
    assert said in checked.out
    assert said in ended.err
    assert "Traceback" not in checked.out + ended.err


def test_wrong_json_is_told_with_its_line(run: Run, shell: Shell) -> None:
    shell.write('{"env": {},\n "source": [,],\n}', "job.json")

    checked = run("", "check", "job.json")

    assert checked.code == CONFIG_ERROR
    assert "job.json:2: expected a value, found ',],'" in checked.out


def test_a_name_that_several_could_mean_is_not_guessed(run: Run) -> None:
    sources = [f"FakeSource {{ plugin_output = {name}, {TWO} }}" for name in ("a", "b")]

    ended = run(a_job("\n".join(sources), "Console { plugin_input = aa }"))

    assert ended.code == CONFIG_ERROR
    assert "there is no output 'aa' to take. Did you mean 'a'?" in ended.err


@pytest.mark.parametrize(
    ("name", "said"),
    [("gone.conf", "No such file"), (".", "Is a directory"), ("binary.conf", "not UTF-8 text")],
)
def test_what_is_no_job_file_is_one_message(run: Run, shell: Shell, name: str, said: str) -> None:
    (shell.folder / "binary.conf").write_bytes(bytes(range(256)))

    for command in ("run", "check", "plan"):
        told(run("", command, name), CONFIG_ERROR, f"Cannot read {name}: ", said)


def test_a_job_file_that_may_not_be_read_is_one_message(shell: Shell) -> None:
    shell.write(batch()).chmod(0)

    told(shell.run_without_rights("run", "job.conf"), CONFIG_ERROR, "job.conf: Permission denied")


# ---------------------------------------------------------------------------------------------- files


def test_an_input_that_is_not_there_is_one_message(run: Run) -> None:
    told(run(a_job(a_file(Path("/gone/in"), "csv"))), FAILED, "/gone/in", "Check the path")


@pytest.mark.parametrize(
    ("name", "kind", "content", "said"),
    [
        ("in.csv", "csv", b"1,a\nx,b\n", "row 2, column 'id': "),
        ("in.csv", "csv", b"1,a\n2\n", "row 2: Expected 2 columns, got 1"),
        ("in.csv", "csv", b"1,\xff\n", "row 1, column 'name': "),
        ("in.csv.gz", "csv", b"no gzip at all", "incorrect header check"),
        ("in.csv.gz", "csv", gzip.compress(b"1,a\n" * 5000)[:40], "Truncated"),
        ("in.json", "json", b'{"id": 1, "name": "a"}\n{"id": 2,\n', "line 2 is no JSON"),
        ("in.json", "json", b'\n{"id": "x"}\n', "line 2: field 'id': expected bigint, found"),
        ("in.xml", "xml", b"<a><r><id>1</id></r>", "no well-formed XML"),
        ("in.xlsx", "excel", b"PK junk", "it is no .xlsx workbook"),
        ("in.parquet", "parquet", b"PAR1 junk" * 10, "not a parquet file"),
        ("in.orc", "orc", b"ORC junk" * 10, "postscript"),
    ],
)
def test_a_file_that_is_not_as_its_format_is_told_with_the_place(
    run: Run, shell: Shell, name: str, kind: str, content: bytes, said: str
) -> None:
    path = shell.folder / name
    path.write_bytes(content)
    tag = ", xml_row_tag = r" if kind == "xml" else ""

    ended = run(a_job(a_file(path, kind, TWO + tag)))

    told(ended, FAILED, f"Cannot read {path}", said, " Correct " if "row" in said else "the file")
    assert ".." not in ended.err


def test_a_parquet_file_with_a_broken_page_is_one_message(run: Run, shell: Shell) -> None:
    path = shell.folder / "in.parquet"
    pq.write_table(pa.table({"id": list(range(1000))}), path)
    whole = bytearray(path.read_bytes())
    whole[100:400] = bytes(300)
    path.write_bytes(whole)

    told(run(a_job(a_file(path, "parquet", ""))), FAILED, f"Cannot read {path}", "Replace the file")


def test_an_archive_that_is_none_is_one_message(run: Run, shell: Shell) -> None:
    path = shell.folder / "in.zip"
    path.write_bytes(b"PK junk")
    more = f"archive_compress_codec = zip, {TWO}"

    told(run(a_job(a_file(path, "csv", more))), FAILED, f"{path}: it is no zip archive")


def test_an_input_that_may_not_be_read_is_one_message(shell: Shell) -> None:
    path = shell.write("1,a\n", "in.csv")
    path.chmod(0)
    shell.write(a_job(a_file(path, "csv")))

    ended = shell.run_without_rights("run", "job.conf")

    told(ended, FAILED, f"Cannot read {path}: Permission denied. Give this user the permission")


def test_an_output_folder_that_may_not_be_written_is_one_message(shell: Shell) -> None:
    target = shell.folder / "out"
    target.mkdir(mode=0o555)
    shell.write(a_job(FAKE, a_file(target, "csv", "")))

    told(shell.run_without_rights("run", "job.conf"), FAILED, str(target), "Permission denied")


def test_a_file_where_the_output_folder_should_be_is_one_message(run: Run, shell: Shell) -> None:
    target = shell.write("", "out")

    told(run(a_job(FAKE, a_file(target, "csv", ""))), FAILED, str(target), "Move away the file")


def test_a_full_disk_below_the_output_is_one_message_and_the_job_goes_on(shell: Shell) -> None:
    target = shell.folder / "out"
    source = FAKE.replace("row.num = 5", "row.num = 5000")
    shell.write(a_job(source, a_file(target, "csv", "")))

    full = shell.run_without_room(20_000, "run", "job.conf")
    again = shell.run("run", "job.conf")

    told(full, FAILED, f"Cannot write {target}", "Free space there, then run the job again")
    assert again.code == 0, again.err
    rows = [line for f in target.glob("*.csv") for line in f.read_text().splitlines()]
    assert len(rows) == len(set(rows)) == 5000


# ---------------------------------------------------------------------------------------------- checkpoints


def test_a_full_disk_below_the_checkpoints_is_one_message(shell: Shell) -> None:
    shell.write(batch(env="job.retry.times = 0"))

    ended = shell.run_without_room(200, "run", "job.conf")

    told(ended, FAILED, f"Cannot create {shell.data}/checkpoints/it/1/1", "Free space")


@pytest.mark.parametrize("below", ["data", "data/checkpoints", "data/jobs"])
def test_a_data_folder_that_may_not_be_written_is_one_message(shell: Shell, below: str) -> None:
    shell.write(batch(env="job.retry.times = 0"))
    (shell.folder / below).mkdir(parents=True)
    (shell.folder / below).chmod(0o555)

    ended = shell.run_without_rights("run", "job.conf")

    told(ended, FAILED, str(shell.data), "Permission denied")


def _flipped(found: bytes) -> bytes:
    return found.replace(b'"attempt":1', b'"attempt":2', 1)


def _newer(found: bytes) -> bytes:
    return json.dumps({**json.loads(found), "format": 99}).encode()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_flipped, "its checksum does not fit what is in it"),
        (_newer, "it has format 99 and this release reads up to 1. Run the release that wrote it"),
        (lambda found: found[: len(found) // 2], "bytes are no whole document"),
        (lambda found: b"", "its 0 bytes are no whole document"),
        (lambda found: b"\x80\x81", "its 2 bytes are no whole document"),
    ],
)
def test_a_checkpoint_that_is_not_as_it_was_written_is_refused(
    run: Run, shell: Shell, spoil: Callable[[bytes], bytes], said: str
) -> None:
    run(batch())
    chain = shell.data / "checkpoints" / "it" / "1"
    number = max(int(child.name) for child in chain.iterdir())
    manifest = chain / str(number) / "manifest.json"
    manifest.write_bytes(spoil(manifest.read_bytes()))

    ended = run(batch())
    listed = run(batch(), "checkpoints", "it")

    told(
        ended, REFUSED, f"Cannot read checkpoint {number} of pipeline it/1: ", said, "--on-missing"
    )
    assert ended.out == ""
    broken, *older = listed.out.splitlines()[1:]
    assert broken.startswith(f"checkpoint 1/{number}  broken: ")
    assert "tip" not in "".join(older), "what lies behind a broken tip is not taken for it"
    told(run(batch(), "savepoint", "it"), FAILED, said)
    assert run(batch(), "restore", "plan", "job.conf").code == REFUSED


def test_two_processes_never_run_one_job(run: Run, shell: Shell) -> None:
    shell.write(stream())
    live = shell.start("run", "job.conf")
    live.wait_for("kind=")

    second = run(stream())

    told(second, REFUSED, f"it is RUNNING in process {live.process.pid}")
    live.process.kill()
    live.end()


@pytest.mark.parametrize("job_id", ["a/b", "..", "a b", "", "savepoint", "x" * 129])
def test_an_id_that_is_no_name_is_one_message(run: Run, job_id: str) -> None:
    ended = run(batch(), "run", "job.conf", f"--job-id={job_id}")

    if job_id:
        told(ended, CONFIG_ERROR, "Cannot read job id", "expected ")
    else:
        assert ended.code == 0, "nothing given: the file's own"


# ---------------------------------------------------------------------------------------------- transforms


@pytest.mark.spark
@pytest.mark.parametrize(
    ("transform", "code", "said"),
    [
        ('Sql { query = "select idd from fake" }', CONFIG_ERROR, "Did you mean 'id'?"),
        ('Sql { query = "select cast(name as int) x from fake" }', FAILED, "cannot be cast"),
    ],
)  # fmt: skip
def test_a_transform_that_does_not_fit_its_table_is_one_message(
    shell: Shell, transform: str, code: int, said: str
) -> None:
    shell.write(a_job(FAKE, transform=transform))

    told(shell.run("run", "job.conf"), code, said)


@pytest.mark.spark
def test_a_function_that_raises_is_told_with_its_line(shell: Shell) -> None:
    code = "def transform_row(row):\n    return 1 / 0\n"
    shell.write(a_job(FAKE, transform=f'Python {{ source_code = """{code}""" }}'))

    ended = shell.run("run", "job.conf")

    told(ended, FAILED, "transform Python on table 'fake'", "division by zero in line 2")


# ---------------------------------------------------------------------------------------------- databases


def jdbc(database: Database, more: str, **given: str) -> str:
    said = {"url": database.url(), "user": database.user, "password": database.password, **given}
    return f"Jdbc {{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in said.items())}, {more} }}"


@pytest.mark.servers
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('table_path = "public.gone"', "there is no such table. Check table_path"),
        ('query = "selec 1"', "syntax error"),
        ('query = "select idd from t"', 'column "idd" does not exist'),
    ],
)
def test_a_table_or_query_that_is_wrong_is_one_message(
    run: Run, postgres_database: Database, source: str, said: str
) -> None:
    postgres_database.execute("CREATE TABLE t (id bigint)")

    told(run(a_job(jdbc(postgres_database, source))), FAILED, said)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("table = keyed, enable_upsert = false", "Correct what the job delivers, or the table"),
        ('query = "insert into gone values (?, ?)"', "Correct the job file, or what the database"),
    ],
)
def test_what_a_database_refuses_is_told_with_what_to_do(
    run: Run, postgres_database: Database, sink: str, said: str
) -> None:
    postgres_database.execute("CREATE TABLE keyed (id bigint, name text CHECK (name = 'x'))")
    mode = "" if "query" in sink else "generate_sink_sql = true, "

    told(run(a_job(FAKE, jdbc(postgres_database, mode + sink))), FAILED, said)


@pytest.mark.servers
def test_a_wrong_password_is_one_message_and_is_not_printed(
    run: Run, postgres_database: Database
) -> None:
    ended = run(a_job(jdbc(postgres_database, "table_path = t", password="hunter2")))

    told(
        ended, FAILED, "password authentication failed", "Check the url, the user and the password"
    )
    assert "hunter2" not in ended.out + ended.err


@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_a_secret_that_a_server_sends_back_is_not_printed(run: Run, debug: list[str]) -> None:
    server = Server(answer=lambda seen: (401, f"who is {seen.headers['X-Me']}?"))
    server.start()
    source = f'Http {{ url = "{server.url}", headers {{ X-Me = topsecret123 }} }}'

    ended = run(a_job(source), "run", "job.conf", *debug)
    server.stop()

    assert ended.code == FAILED
    assert "the server answered 401 (who is ******?)" in ended.err
    assert "topsecret123" not in ended.out + ended.err


def test_a_server_that_is_down_is_one_message_after_its_retries(run: Run) -> None:
    source = 'Jdbc { url = "jdbc:postgresql://127.0.0.1:1/x", user = u, table_path = t }'

    ended = run(a_job(source))

    told(ended, FAILED, "127.0.0.1:1", "Check that the server runs and can be reached")
    assert ended.err.count("Pipeline 1 failed and goes on") == 1


@pytest.mark.servers
@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("table = other", "it has no column 'name', only id, color. Add the column"),
        ("table = gone, schema_save_mode = ERROR_WHEN_SCHEMA_NOT_EXIST", "there is no such table"),
        ("table = t, data_save_mode = ERROR_WHEN_DATA_EXISTS", "it holds rows"),
    ],
)
def test_a_target_that_does_not_fit_is_one_message(
    run: Run, postgres_database: Database, sink: str, said: str
) -> None:
    postgres_database.execute(
        "CREATE TABLE t (id bigint, name text)",
        "INSERT INTO t VALUES (1, 'a')",
        "CREATE TABLE other (id bigint, color text)",
    )

    told(
        run(a_job(FAKE, jdbc(postgres_database, f"generate_sink_sql = true, {sink}"))), FAILED, said
    )


# ---------------------------------------------------------------------------------------------- the process


@pytest.mark.parametrize("rows", [500, 50_000])
def test_a_reader_that_goes_away_ends_the_job_in_one_message(shell: Shell, rows: int) -> None:
    """Few rows are printed by the process itself, many by an executor."""
    delay_ms = 10 if rows == 500 else 0
    shell.write(batch(rows, sink=f"Console {{ log.print.delay.ms = {delay_ms} }}"))
    read, write = os.pipe()
    live = shell.start("run", "job.conf", out=write)
    os.close(write)
    os.read(read, 10)
    os.close(read)

    told(live.end(), FAILED, "Cannot print rows on standard output: Broken pipe", "goes on")


def test_an_output_without_room_is_one_message(shell: Shell) -> None:
    shell.write(batch())
    full = os.open("/dev/full", os.O_WRONLY)

    ran = shell.start("run", "job.conf", out=full).end()
    listed = shell.start("options", out=full).end()

    told(ran, FAILED, "Cannot print rows on standard output: No space left on device")
    told(listed, FAILED, "No space left on device")


def test_a_closed_output_prints_nowhere(shell: Shell) -> None:
    shell.write(batch())
    closed = ("sh", "-c", f'exec "{sys.executable}" "$@" >&-', "sh")

    ended = shell.start("run", "job.conf", by=closed).end()

    assert ended.code == 0, ended.err
    assert "FINISHED" in ended.err


def test_with_debug_the_place_is_shown(run: Run) -> None:
    ended = run(a_job(a_file(Path("/gone"), "csv")), "run", "job.conf", "--debug")

    assert "Traceback" in ended.err
    assert ended.err.rstrip().endswith("Check the path, or put the file back.")


@pytest.mark.parametrize("arguments", [[], ["runn"], ["run"], ["run", "job.conf", "--nothing"]])
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "usage: holdfast" in done.stderr


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["spark.sql.shuffle.partitions", "spark.task.cpus"])
def test_a_setting_that_spark_cannot_read_is_one_message(shell: Shell, setting: str) -> None:
    """Each in a process of its own: PySpark itself never comes to the end of telling the first."""
    query = 'Sql { query = "select id from fake" }'
    text = a_job(FAKE, transform=query).replace("env {", f'env {{ {setting} = "x",')

    shell.write(text)
    ended = shell.run("run", "job.conf")

    assert ended.code == CONFIG_ERROR, ended.err
    assert "Cannot start Spark" in ended.err
    assert setting in ended.err
    assert "Traceback" not in ended.err
