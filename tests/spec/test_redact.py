"""No secret is printed: neither by its option's name nor by its value."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdfast.model.json import JsonObject
from holdfast.spec.options import option
from holdfast.spec.redact import (
    is_sensitive,
    redact_json,
    redact_text,
    secret_values,
    shown_options,
)

CANARY = "hunter2!x"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://ann:hunter2!x@h:5432/d",
        "jdbc:postgresql://h/d?user=ann&password=hunter2!x&ssl=true",
        "jdbc:sqlserver://h;databaseName=d;password=hunter2!x;encrypt=true",
        "jdbc:oracle:thin:ann/hunter2!x@h:1521/d",
        "mysql://ann:hunter2!x@h/d",
        "mongodb+srv://ann:hunter2!x@h/d",
        "amqp://:hunter2!x@h",
        "https://h/x?access_token=hunter2!x",
        "https://h/x?a=1&api_key=hunter2!x#f",
        "Cannot connect: password='hunter2!x' is wrong",
        '{"password": "hunter2!x", "a": 1}',
        "secret_key = hunter2!x",
        "PWD=hunter2!x;",
    ],
)
def test_credentials_are_hidden_in_any_text(text: str) -> None:
    assert CANARY not in redact_text(text)
    assert "******" in redact_text(text)


@pytest.mark.parametrize("scheme", ["Bearer", "Basic", "bearer"])
def test_authorization_headers_are_hidden_in_any_text(scheme: str) -> None:
    assert "abcdef123456" not in redact_text(f"Authorization: {scheme} abcdef123456==")


def test_what_is_no_secret_stays_readable() -> None:
    text = (
        "jdbc:postgresql://h:5432/d?user=ann&ssl=true at 10:30 by ann@example.org, password column"
    )

    assert redact_text(text) == text


def test_a_value_that_is_known_is_hidden_wherever_it_turns_up() -> None:
    assert redact_text("driver said: role x9 with key q7", ["x9", "q7"]) == (
        "driver said: role ****** with key ******"
    )


def test_maps_are_hidden_by_key_at_any_depth() -> None:
    found: JsonObject = {
        "headers": {"Authorization": "abc", "Accept": "json"},
        "list": [{"sasl.jaas.config": "abc", "url": "http://u:abc@h"}],
        "password": None,
        "use_password": True,
    }

    assert redact_json(found) == {
        "headers": {"Authorization": "******", "Accept": "json"},
        "list": [{"sasl.jaas.config": "******", "url": "http://u:******@h"}],
        "password": None,
        "use_password": True,
    }


@pytest.mark.parametrize(
    "key",
    ["password", "db.password", "access_token", "secretKey", "s3.secret-access-key", "X-Api-Key"],
)
def test_names_of_secrets_are_known(key: str) -> None:
    assert is_sensitive(key)


@pytest.mark.parametrize("key", ["user", "primary_keys", "tokenizer", "author", "key_format"])
def test_names_that_only_look_like_it_are_not(key: str) -> None:
    assert not is_sensitive(key)


@dataclass(frozen=True)
class Inner:
    key: str | None = option("Declared secret, further in.", default=None, secret=True)


@dataclass(frozen=True)
class Options:
    url: str = option("Where.")
    license: str | None = option("Declared secret.", default=None, secret=True)
    headers: dict[str, str] = option("More.", default={})
    tables: list[Inner] = option("Tables.", default=[])


def test_the_secrets_of_options_are_declared_or_sound_like_it_or_stand_in_urls() -> None:
    options = Options(
        url="http://u:first1@h/?password=second2",
        license="third3",
        headers={"Authorization": "Bearer fourth4", "Accept": "json"},
        tables=[Inner(key="fifth5")],
    )

    assert secret_values(options) == {"first1", "second2", "third3", "Bearer fourth4", "fifth5"}
    assert not any(secret in str(shown_options(options)) for secret in secret_values(options))


def test_hiding_takes_no_longer_for_long_words() -> None:
    text = "ab.c-d_" * 20_000 + " password=x " + "a:b@" * 20_000

    assert "password=******" in redact_text(text)
