"""Shaded job files: encoded and decoded values."""

from __future__ import annotations

import json

import pytest

from holdfast.model.errors import ConfigError
from holdfast.spec.shade import decode_value, decrypt_job, encode_value, encrypt_job
from tests.spec.a_catalog import spec_of

JOB = """
    env { job.mode = BATCH }
    source { Jdbc { url = x, username = ann, password = "hünter2", table = t } }
    sink { Jdbc { url = y, password = 12.50 } }
"""


def test_the_sensitive_values_of_all_blocks_are_encoded_and_the_job_is_the_same() -> None:
    shaded = encrypt_job(JOB)

    assert "hünter2" not in shaded
    assert json.loads(shaded)["env"]["shade"] == {"identifier": "base64"}
    before, after = spec_of(JOB), spec_of(shaded, name="orders.json")
    assert [v.options for v in before.pipelines[0].vertices] == [
        v.options for v in after.pipelines[0].vertices
    ]


def test_decrypting_gives_the_values_back() -> None:
    found = json.loads(decrypt_job(encrypt_job(JOB)))

    assert found["env"]["shade"] == {"identifier": "default"}
    assert found["source"][0] == {
        "plugin_name": "Jdbc",
        "url": "x",
        "username": "ann",
        "password": "hünter2",
        "table": "t",
    }
    assert found["sink"][0]["password"] == "12.50"


def test_encrypting_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="every sensitive value is encoded"):
        encrypt_job(encrypt_job(JOB))


def test_a_file_that_names_its_shade_beforehand_is_encrypted_all_the_same() -> None:
    shaded = encrypt_job(JOB.replace("job.mode = BATCH", "shade.identifier = base64"))

    assert "hünter2" not in shaded
    assert spec_of(shaded).pipelines[0].vertices[0].options.password == "hünter2"


def test_decrypting_what_is_not_encoded_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="Cannot decrypt 'username' in line 3") as caught:
        decrypt_job(JOB.replace("ann", "'ann!'"))

    assert "ann!" not in str(caught.value)


def test_a_value_comes_back_as_it_was() -> None:
    assert decode_value(encode_value("pässwörd ${x}")) == "pässwörd ${x}"
