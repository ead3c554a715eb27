"""SQL job files become the same jobs as HOCON files."""

from __future__ import annotations

import pytest

from holdfast.model.jobs import Role
from tests.spec.a_catalog import said_of, spec_of

HEAD = """/* config
env {
  job.mode = "BATCH"
  parallelism = 2
}
*/
-- a comment; with a semicolon
CREATE TABLE orders WITH (
  'connector' = 'jdbc', 'type' = 'source',
  'url' = 'jdbc:x', 'query' = 'select * from o where name = ''Joy''',
  'properties' = '{ a = 1, b = two }'
);
CREATE TABLE IF NOT EXISTS target WITH ('connector'='Console', 'type'='sink');
"""


def sources(inside: str) -> str:
    return f"CREATE TABLE s WITH ('connector'='FakeSource','type'='source'{inside});\n"


def test_tables_and_an_insert_become_source_transform_and_sink() -> None:
    spec = spec_of(HEAD + "INSERT INTO target SELECT id, name FROM orders;", name="x.sql")

    source, transform, sink = spec.pipelines[0].vertices
    assert (spec.env.parallelism, source.kind, source.output) == (2, "Jdbc", "orders")
    assert source.options.query == "select * from o where name = 'Joy'"
    assert source.options.properties == {"a": "1", "b": "two"}
    assert (transform.kind, transform.options.query) == ("Sql", "SELECT id, name FROM orders")
    assert (transform.inputs, sink.inputs) == ((source.location,), (transform.location,))


def test_an_insert_of_a_whole_table_needs_no_transform() -> None:
    spec = spec_of(HEAD + "insert into target select orders", name="x.sql")

    assert [v.role for v in spec.pipelines[0].vertices] == [Role.SOURCE, Role.SINK]


def test_a_table_made_from_a_select_can_be_read_further() -> None:
    text = (
        HEAD
        + """
        CREATE TABLE paid AS SELECT o.id, ';' AS x FROM orders o WHERE paid;
        INSERT INTO target SELECT * FROM paid;
        INSERT INTO target SELECT p.id FROM paid AS p JOIN `orders` ON p.id = orders.id;
    """
    )

    vertices = {v.location: v for v in spec_of(text, name="x.sql").pipelines[0].vertices}

    assert vertices["transform-0-sql"].options.query.endswith("WHERE paid")
    assert vertices["transform-0-sql"].output == "paid"
    assert vertices["transform-2-sql"].inputs == ("transform-0-sql", "source-0-jdbc")
    assert vertices["sink-0-console"].inputs == ("transform-1-sql", "transform-2-sql")


def test_statements_may_stand_in_any_order() -> None:
    text = """
        INSERT INTO t SELECT * FROM x;
        CREATE TABLE x AS SELECT * FROM s;
        CREATE TABLE t WITH ('connector'='Console','type'='sink');
    """

    vertices = spec_of(text + sources(""), name="x.sql").pipelines[0].vertices

    assert [v.output for v in vertices] == ["s", "x", "t__1", "sink-0-console"]


def test_variables_are_filled_in_options_queries_and_config() -> None:
    text = """/* config env { parallelism = ${p} } */
        CREATE TABLE s WITH ('connector'='FakeSource','type'='source','row.num'='${n}');
        CREATE TABLE t WITH ('connector'='Console','type'='sink');
        INSERT INTO t SELECT * FROM s WHERE x = '${x}';"""

    spec = spec_of(text, name="x.sql", p="3", n="7", x="y")

    source, transform, _ = spec.pipelines[0].vertices
    assert (spec.env.parallelism, source.options.row_num) == (3, 7)
    assert transform.options.query == "SELECT * FROM s WHERE x = 'y'"


def test_a_schema_is_given_as_hocon_and_problems_have_the_files_lines() -> None:
    text = sources(", 'schema' = '{\n  fields {\n id = intt } }'") + HEAD

    problem = said_of(text + "INSERT INTO target SELECT s;", name="x.sql")[0]

    assert problem.startswith("line 3: source FakeSource: option 'schema': column 'id'")


def test_every_statement_that_is_wrong_is_told() -> None:
    text = sources("") + "INSER INTO t SELECT s;\nCREATE TABLE x WITH ('connector' = 'Console');"
    gone = sources("") + HEAD + "INSERT INTO target SELECT a FROM b;\nINSERT INTO x SELECT s;"

    assert [said[:7] for said in said_of(text, name="x.sql")] == ["line 2:", "line 3:"]
    assert len(said_of(gone, name="x.sql")) == 2


def test_a_problem_in_the_config_comment_has_its_line() -> None:
    text = HEAD.replace("parallelism = 2", "paralelism = 2") + "INSERT INTO target SELECT orders;"

    assert said_of(text, name="x.sql") == [
        "line 4: env: there is no option 'paralelism'. Did you mean 'parallelism'?"
    ]


@pytest.mark.parametrize(
    ("statement", "line", "said"),
    [
        ("SELECT 1;", 14, "expected CREATE TABLE … WITH, CREATE TABLE … AS or INSERT INTO, found 'SELECT'"),
        ("INSERT INTO targt SELECT orders;", 14, "no sink table 'targt' in this file. Did you mean 'target'?"),
        ("INSERT INTO target (a) SELECT orders;", 14, "takes no list of columns"),
        ("INSERT INTO target VALUES (1);", 14, "expected SELECT after INSERT INTO target"),
        ("INSERT INTO target SELECT * FROM order;", 14, "no such table in this file. Did you mean 'orders'?"),
        ("INSERT INTO target SELECT 1;", 14, "names no table after FROM"),
        ("CREATE TABLE orders AS SELECT * FROM orders;", 14, "table 'orders' is created twice"),
        ("CREATE TABLE x (id INT);", 14, "has a list of columns here; give them as 'schema'"),
        ("CREATE TABLE x WITH ('type'='source');", 14, "needs an option 'connector'"),
        ("CREATE TABLE x WITH ('connector'='a');", 14, "needs 'type' = 'source' or 'type' = 'sink'"),
        ("CREATE TABLE x WITH (\n'connector'=5);", 15, "text in single quotes as the value of 'connector', found '5'"),
        ("CREATE TABLE x WITH ('connector' 'a');", 14, "expected '=' after 'connector'"),
        ("CREATE TABLE x WITH ('connector'='a'", 14, "expected ',' or ')'"),
        ("CREATE TABLE x;", 14, "expected 'WITH' or AS after CREATE TABLE x, found the end"),
        ("CREATE TABLE x WITH ('a'='b) ;", 14, "a string that begins with ' is not closed"),
        ("", 13, "nothing is inserted into table 'target'"),
    ],
)  # fmt: skip
def test_a_statement_that_cannot_be_read_is_told_with_its_line(
    statement: str, line: int, said: str
) -> None:
    (problem,) = said_of(HEAD + statement, name="x.sql")

    assert problem.startswith(f"line {line}: ")
    assert said in problem
