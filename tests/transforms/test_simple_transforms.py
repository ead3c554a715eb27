"""What each transform does to inserts and to changes, table by table."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.model.errors import ConfigError
from tests.transforms.applying import Given, problems_of, run, run_one

pytestmark = pytest.mark.spark

PEOPLE = {"id": "int", "name": "string", "age": "int"}
JOY = {"id": 1, "name": "Joy Ding", "age": 20}
KIN = {"id": 2, "name": "Kin Dom", "age": None}
CHANGES = [
    {**JOY, "__kind": "+I"},
    {**JOY, "__kind": "-U"},
    {**JOY, "age": 21, "__kind": "+U"},
    {**KIN, "__kind": "-D"},
]


def people(**changed: Any) -> Given:
    return Given(
        **{"path": "test.people", "columns": PEOPLE, "rows": [JOY, KIN], "key": ("id",), **changed}
    )


def changes() -> Given:
    return people(rows=CHANGES, kinds=True)


def kinds_of(made: Any) -> list[str]:
    return [row["__kind"] for row in made.rows]


TRANSFORMS_THAT_KEEP_ROWS: dict[str, dict[str, Any]] = {
    "Filter": {"include_fields": ["name", "id"]},
    "FieldMapper": {"field_mapper": {"name": "full_name", "id": "id"}},
    "Replace": {"replace_field": "name", "pattern": " ", "replacement": "_"},
    "Split": {"separator": " ", "split_field": "name", "output_fields": ["first", "last"]},
    "Copy": {"fields": {"name1": "name"}},
    "JsonPath": {
        "columns": [
            {
                "src_field": "name",
                "path": "$.x",
                "dest_field": "x",
                "column_error_handle_way": "SKIP",
            }
        ]
    },
    "FieldRename": {"convert_case": "UPPER"},
    "TableRename": {"prefix": "p_"},
    "TableFilter": {"table_pattern": "people"},
    "TableMerge": {"table": "all"},
    "Metadata": {"metadata_fields": {"Table": "t"}},
    "Sql": {"query": "select id, upper(name) as name from fake"},
    "Python": {
        "source_code": "def transform(batch):\n    return batch.select(['name', 'id'])",
    },
}


@pytest.mark.parametrize("name", sorted(TRANSFORMS_THAT_KEEP_ROWS))
def test_the_kinds_of_rows_travel_through(spark: SparkSession, name: str) -> None:
    made = run_one(spark, name, TRANSFORMS_THAT_KEEP_ROWS[name], changes())

    assert kinds_of(made) == ["+I", "-U", "+U", "-D"]
    assert made.arrow.column_names[-1] == "__kind"


def test_filter_keeps_the_included_fields_in_their_order(spark: SparkSession) -> None:
    made = run_one(spark, "Filter", {"include_fields": ["name", "id"]}, people())

    assert made.rows == [{"name": "Joy Ding", "id": 1}, {"name": "Kin Dom", "id": 2}]
    assert made.table.primary_key == ("id",)


def test_a_key_is_lost_with_its_column(spark: SparkSession) -> None:
    made = run_one(spark, "Filter", {"exclude_fields": ["id"]}, people())

    assert made.table.column_names == ["name", "age"]
    assert made.table.primary_key == ()


def test_field_mapper_renames_keys_with_their_fields(spark: SparkSession) -> None:
    options = {"field_mapper": {"name": "full name", "id": "key"}}

    made = run_one(spark, "FieldMapper", options, people())

    assert made.rows[0] == {"full name": "Joy Ding", "key": 1}
    assert made.table.primary_key == ("key",)


def test_copy_knows_both_forms(spark: SparkSession) -> None:
    options = {"fields": {"n1": "name", "n2": "name"}, "src_field": "age", "dest_field": "age1"}

    made = run_one(spark, "Copy", options, people())

    assert made.rows[0] == {**JOY, "n1": "Joy Ding", "n2": "Joy Ding", "age1": 20}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"include_kinds": ["INSERT", "+U"]}, ["+I", "+U"]),
        ({"exclude_kinds": ["UPDATE_BEFORE"]}, ["+I", "+U", "-D"]),
    ],
)
def test_filter_row_kind(spark: SparkSession, options: Any, expected: list[str]) -> None:
    assert kinds_of(run_one(spark, "FilterRowKind", options, changes())) == expected


def test_rows_without_kinds_are_inserts_to_filter_row_kind(spark: SparkSession) -> None:
    kept = run_one(spark, "FilterRowKind", {"include_kinds": ["+I"]}, people())
    dropped = run_one(spark, "FilterRowKind", {"exclude_kinds": ["INSERT"]}, people())

    assert len(kept.rows) == 2
    assert dropped.rows == []


def test_row_kind_extractor_makes_inserts_of_all_rows(spark: SparkSession) -> None:
    short = run_one(spark, "RowKindExtractor", {}, changes())
    full = run_one(
        spark, "RowKindExtractor", {"custom_field_name": "op", "transform_type": "FULL"}, changes()
    )

    assert [row["row_kind"] for row in short.rows] == ["+I", "-U", "+U", "-D"]
    assert [r["op"] for r in full.rows] == ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]
    assert "__kind" not in short.arrow.column_names
    assert short.table.primary_key == ()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pattern": "o", "replacement": "$0"}, "J$0y D$0t.D$0t"),
        ({"pattern": "[.]", "replacement": "-", "is_regex": True}, "Joy Dot-Dot"),
        ({"pattern": "o(.)", "replacement": "$1o", "is_regex": True}, "Jyo Dto.Dto"),
        (
            {"pattern": "D(o)t", "replacement": "<$1>", "is_regex": True, "replace_first": True},
            "Joy <o>.Dot",
        ),
        (
            {"pattern": "(D)(?=ot\\.)o", "replacement": "$1\\$1", "is_regex": True}
            | {"replace_first": True},
            "Joy D$1t.Dot",
        ),
    ],
)
def test_replace(spark: SparkSession, options: dict[str, Any], expected: str) -> None:
    given = people(rows=[{**JOY, "name": "Joy Dot.Dot"}, {**KIN, "name": None}])

    made = run_one(spark, "Replace", {"replace_field": "name", **options}, given)

    assert [row["name"] for row in made.rows] == [expected, None]


def test_split_gives_the_rest_to_the_last_and_null_to_what_is_left(spark: SparkSession) -> None:
    rows = [{**JOY, "name": n} for n in ("a b c", "a", None)]
    options = {"separator": " ", "split_field": "name", "output_fields": ["one", "two"]}

    made = run_one(spark, "Split", options, people(rows=rows))

    assert [(r["one"], r["two"]) for r in made.rows] == [("a", "b c"), ("a", None), (None, None)]


def test_field_rename_replaces_in_the_old_name_then_turns_the_case(spark: SparkSession) -> None:
    options = {
        "convert_case": "UPPER",
        "prefix": "F_",
        "suffix": "_S",
        "replacements_with_regex": [{"replace_from": "am", "replace_to": "xx"}],
        "specific": [{"field_name": "age", "target_name": "years"}],
    }

    made = run_one(spark, "FieldRename", options, people())

    assert made.table.column_names == ["F_ID_S", "F_NxxE_S", "years"]
    assert made.table.primary_key == ("F_ID_S",)


def test_field_rename_refuses_one_name_for_two_fields(spark: SparkSession) -> None:
    options = {"specific": [{"field_name": "age", "target_name": "id"}]}

    with pytest.raises(ConfigError, match="'id' and 'age' would both be named 'id'"):
        run_one(spark, "FieldRename", options, people())


def test_table_rename_changes_the_name_and_only_the_case_of_the_rest(spark: SparkSession) -> None:
    options = {
        "convert_case": "UPPER",
        "prefix": "CDC_",
        "replacements_with_regex": [{"replace_from": "peo", "replace_to": "Peo"}],
    }

    made = run_one(spark, "TableRename", options, people())

    assert made.table.path == "TEST.CDC_PeoPLE"


def test_table_rename_refuses_one_name_for_two_tables(spark: SparkSession) -> None:
    tables = [people(path="test.a1"), people(path="test.a2")]
    options = {"replacements_with_regex": [{"replace_from": r"\d", "replace_to": ""}]}

    with pytest.raises(ConfigError, match=r"'test\.a1' and 'test\.a2' would both .* TableMerge"):
        run(spark, "TableRename", options, tables)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"database_pattern": "test", "table_pattern": r"user_\d+"}, ["test.user_1"]),
        ({"table_pattern": r"user_\d+", "pattern_mode": "EXCLUDE"}, ["test.shop"]),
        ({"schema_pattern": "x"}, ["other.x.user_2"]),
    ],
)
def test_table_filter(spark: SparkSession, options: Any, expected: list[str]) -> None:
    paths = ["test.user_1", "test.shop", "other.x.user_2"]

    made = run(spark, "TableFilter", options, [people(path=path) for path in paths])

    assert [one.table.path for one in made] == expected


def test_table_merge_makes_one_table_and_leaves_the_others(spark: SparkSession) -> None:
    tables = [
        people(path="source.user_1"),
        people(path="source.shop"),
        people(path="source.user_2", rows=CHANGES[3:], kinds=True),
    ]
    options = {"table_match_regex": "source.user_.*", "database": "user_db", "table": "user_all"}

    merged, shop = run(spark, "TableMerge", options, tables)

    assert (merged.table.path, shop.table.path) == ("user_db.user_all", "source.shop")
    assert kinds_of(merged) == ["+I", "+I", "-D"]
    assert merged.table.primary_key == ("id",)


def test_table_merge_refuses_tables_of_other_shape(spark: SparkSession) -> None:
    tables = [people(path="a"), people(path="b", columns={**PEOPLE, "age": "bigint"})]

    with pytest.raises(ConfigError, match="'a' and 'b': column 'age' is int32 in one and int64"):
        run(spark, "TableMerge", {"table": "all"}, tables)


def test_metadata_tells_database_table_and_kind(spark: SparkSession) -> None:
    fields = {"metadata_fields": {"Database": "db", "Table": "tb", "RowKind": "op"}}

    changed = run_one(spark, "Metadata", fields, changes())
    without = run_one(spark, "Metadata", fields, people(path="people"))

    changed_to = changed.rows[2]
    assert (changed_to["db"], changed_to["tb"], changed_to["op"]) == ("test", "people", "+U")
    assert (without.rows[0]["db"], without.rows[0]["op"]) == (None, "+I")


def test_names_with_dots_spaces_and_backticks_are_names(spark: SparkSession) -> None:
    given = Given("t", {"a.b": "int", "c d": "string", "e`f": "int"}, [{"a.b": 1, "c d": "x"}])

    made = run_one(spark, "Copy", {"fields": {"x.y": "a.b", "z": "e`f"}}, given)

    assert made.rows == [{"a.b": 1, "c d": "x", "e`f": None, "x.y": 1, "z": None}]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Filter", {"include_fields": ["nme"]}),
        ("FieldMapper", {"field_mapper": {"nme": "x"}}),
        ("Copy", {"fields": {"x": "nme"}}),
        ("Replace", {"replace_field": "nme", "pattern": "a", "replacement": "b"}),
        ("Split", {"split_field": "nme", "separator": ",", "output_fields": ["x"]}),
        ("JsonPath", {"columns": [{"src_field": "nme", "path": "$.a", "dest_field": "x"}]}),
    ],
)
def test_an_unknown_field_is_told_with_the_nearest(
    spark: SparkSession, name: str, options: Any
) -> None:
    said = rf"transform {name} to table 'test\.people': it has no column 'nme'.*mean 'name'\?"
    with pytest.raises(ConfigError, match=said):
        run_one(spark, name, options, people())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RowKindExtractor", {"custom_field_name": "age"}),
        ("Metadata", {"metadata_fields": {"Table": "age"}}),
    ],
)
def test_a_new_field_may_not_take_a_name(spark: SparkSession, name: str, options: Any) -> None:
    with pytest.raises(ConfigError, match="it has a column 'age' already"):
        run_one(spark, name, options, people())


def test_tables_are_matched_by_path_before_pattern_and_others_pass(spark: SparkSession) -> None:
    paths = ["test.abc", "test.abcd", "test.xyz", "test.xyzxyz", "test.www"]
    options = {
        "table_match_regex": "test.a.*",
        "src_field": "name",
        "dest_field": "name1",
        "table_transform": [
            {"table_path": "test.xyz", "src_field": "name", "dest_field": "name2"},
            {"table_path": "test.xyzxyz", "src_field": "name", "dest_field": "name3"},
        ],
    }

    made = run(spark, "Copy", options, [people(path=path) for path in paths])

    last = {one.table.path: one.table.column_names[-1] for one in made}
    assert list(last.values()) == ["name1", "name1", "name2", "name3", "age"]


@pytest.mark.parametrize(
    ("mode", "expected"), [("FIRST_MATCH", ["name2"]), ("ALL_MATCH", ["name2", "name3"])]
)
def test_several_rules_of_one_table(spark: SparkSession, mode: str, expected: list[str]) -> None:
    options = {
        "rule_match_mode": mode,
        "table_transform": [
            {"table_path": "test.people", "src_field": "name", "dest_field": "name2"},
            {"table_path": "test.people", "src_field": "name2", "dest_field": "name3"},
        ],
    }

    made = run(spark, "Copy", options, [people(), people(path="test.other")])

    assert made[0].table.column_names[3:] == expected
    assert made[1].table.column_names[3:] == []
    assert "test.people' twice" in problems_of("Copy", {**options, "rule_match_mode": None})[0]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "missing ), unterminated subpattern"),
        ("a[b", "unterminated character set"),
        ("a)", "unbalanced parenthesis"),
        (r"\p{Lu}[[a-z]&&[^b]](?<name>x)\Q(\E", None),
    ],
)
def test_a_pattern_that_java_cannot_read_is_told_before_the_job_runs(
    pattern: str, said: str | None
) -> None:
    replacing = {"replace_field": "a", "pattern": pattern, "replacement": "", "is_regex": True}
    splitting = {"split_field": "a", "separator": pattern, "output_fields": ["b"]}

    for found in (problems_of("Replace", replacing), problems_of("Split", splitting)):
        assert (said in found[0]) if said else found == []
    assert problems_of("Replace", {**replacing, "is_regex": False}) == []
