"""What every sink promises, as rules that can be run against it.

A rule is a function of a `SinkCase` over a system that is empty when the rule begins; its docstring is the promise.

    @pytest.mark.parametrize("rule", SINK_RULES, ids=str)
    def test_my_sink(rule, tmp_path):
        rule.check(SinkCase(make=lambda context: MySink(options, context), visible=lambda: look(tmp_path)))
"""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.connectors.base import Context, Guarantee, Sink, StageScope, Token
from holdfast.model.errors import HoldfastError
from holdfast.model.json import JsonObject
from holdfast.model.schema import Table
from holdfast.testing.builders import LINEAGE, a_batch, a_claim, a_context, a_scope, a_token
from holdfast.testing.model_log import log_table
from holdfast.testing.rules import Rule, always, rule_of

TABLE = log_table("t")


@dataclass(frozen=True)
class SinkCase:
    """A sink over an empty system, with the facts that the rules need."""

    make: Callable[[Context], Sink]
    """A new object over the same system each time, as after a restart."""
    visible: Callable[[], Sequence[int]]
    """The ids of the rows that a reader of the system sees now, in any order, doubles included."""
    leftovers: Callable[[], Sequence[str]] = lambda: ()
    """What staging left and nobody removed: files, tables, rows of bookkeeping, by name."""
    table: Table = TABLE
    """The table that is written: `id` bigint (its key) and `text` string."""
    declared: tuple[Guarantee, str] | None = None
    """What the connector's declaration says these options guarantee."""


def check_sink(make_case: Callable[[], SinkCase]) -> None:
    """All rules, each over a new case; for authors who do not care for one test per rule."""
    for rule in SINK_RULES:
        case = make_case()
        if rule.applies(case) is None:
            rule.check(case)


def _is_as_declared(case: SinkCase) -> None:
    """guarantees what its declaration says, and tells the condition in words"""
    sink = case.make(a_context())
    if case.declared is not None:
        assert (sink.guarantee, sink.condition) == case.declared


def _is_showing_what_it_took(case: SinkCase) -> None:
    """shows each row once it is published"""
    sink = _ready(case)
    token = _stage(case, sink, range(5))
    _publish(case, token)
    _sees(case, range(5), "published")


def _is_hiding_what_is_staged(case: SinkCase) -> None:
    """shows nothing of what is only staged"""
    sink = _ready(case)
    _stage(case, sink, range(5))
    _sees(case, [], "staged and not published")


def _is_told_of_no_rows(case: SinkCase) -> None:
    """leaves no part where a task had no rows"""
    sink = _ready(case)
    scope = _scope(case)
    assert sink.stage(scope, iter(())) is None
    _sees(case, [], "nothing staged")


def _is_publishing_once(case: SinkCase) -> None:
    """publishes a token twice, later and after others as if once"""
    sink = _ready(case)
    first = _stage(case, sink, range(5), epoch=2)
    _publish(case, first)
    _publish(case, first)
    _sees(case, range(5), "published twice")
    second = _stage(case, sink, range(5, 8), epoch=3)
    _publish(case, second)
    _publish(case, first)
    _publish(case, second)
    _sees(case, range(8), "published again after a later epoch")


def _is_publishing_once_for_two(case: SinkCase) -> None:
    """publishes once when two publish one token at the same time"""
    sink = _ready(case)
    parts = [_part(case, sink, [task * 10, task * 10 + 1], task=task) for task in range(6)]
    token = a_token(parts)
    failed: list[BaseException] = []
    together = threading.Barrier(3)

    def publish() -> None:
        try:
            together.wait()
            _publish(case, token)
        except BaseException as error:  # noqa: BLE001 - shown by the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=publish) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, f"one of three publishers failed: {failed[0]!r}"
    _sees(case, [task * 10 + i for task in range(6) for i in range(2)], "published by three")


def _is_publishing_what_the_token_names(case: SinkCase) -> None:
    """publishes of two tries of one task the one that the token names, and removes the other later"""
    sink = _ready(case)
    _part(case, sink, [1, 2], try_id="0")
    kept = _part(case, sink, [1, 2], try_id="1")
    token = a_token([kept])
    _publish(case, token)
    _sees(case, [1, 2], "one of two tries published")
    _discard(case, attempt=2, keep=token)
    _sees(case, [1, 2], "the other try discarded")
    _has_left_nothing(case)


def _is_discarding_what_older_attempts_left(case: SinkCase) -> None:
    """removes by `discard` what older attempts staged, and leaves nothing of it"""
    sink = _ready(case)
    published = _stage(case, sink, range(5), epoch=2)
    _publish(case, published)
    lost = _stage(case, sink, range(5, 9), epoch=3)
    _discard(case, attempt=2, keep=published)
    _discard(case, attempt=2, keep=published)
    _sees(case, range(5), "discarded")
    _has_left_nothing(case)
    _try_to_publish(case, lost)
    _sees(case, range(5), "discarded, and published late by its old attempt")


def _is_sparing_the_kept_token(case: SinkCase) -> None:
    """spares the tip's token when it discards: it may still have to be published"""
    sink = _ready(case)
    kept = _stage(case, sink, range(5), epoch=2)
    _stage(case, sink, range(5, 9), epoch=3)
    _discard(case, attempt=2, keep=kept)
    _sees(case, [], "discarded around a staged token")
    _publish(case, kept)
    _sees(case, range(5), "the kept token published")
    _has_left_nothing(case)


def _is_sparing_newer_attempts(case: SinkCase) -> None:
    """spares what its own and newer attempts staged, when an older one discards late"""
    sink = _ready(case)
    own = _stage(case, sink, range(3), attempt=2, epoch=3)
    newer = _stage(case, sink, range(3, 6), attempt=3, epoch=4)
    _discard(case, attempt=2, keep=None)
    _publish(case, own)
    _publish(case, newer)
    _sees(case, range(6), "published after an older attempt's discard")


def _is_sparing_its_neighbours(case: SinkCase) -> None:
    """spares what other jobs and sinks staged, also where one name begins with the other"""
    here = a_context("sink-1-it", job_id="orders")
    neighbours = [
        a_context("sink-1-it", job_id="orders-2"),
        a_context("sink-1-it", job_id="order"),
        a_context("sink-10-it", job_id="orders"),
    ]
    case.make(here).prepare([case.table])
    tokens = []
    for index, context in enumerate(neighbours):
        part = _part(case, case.make(context), [index], context=context)
        tokens.append((context, a_token([part])))
    _discard(case, attempt=5, keep=None, context=here)
    for context, token in tokens:
        _publish(case, token, context=context)
    _sees(case, range(len(neighbours)), "neighbours published after a discard")


def _is_telling_lineages_apart(case: SinkCase) -> None:
    """tells lineages apart: after checkpoint storage was wiped, epoch 2 comes again and is another one"""
    sink = _ready(case)
    first = _stage(case, sink, [1, 2], epoch=2)
    _publish(case, first)
    _discard(case, attempt=1, keep=None, lineage="b00c")
    scope = replace(_scope(case, epoch=2), lineage="b00c")
    part = case.make(a_context()).stage(scope, iter([a_batch([3, 4], case.table.path)]))
    assert part is not None
    _publish(case, a_token([part], lineage="b00c"))
    _sees(case, [1, 2, 3, 4], "the same epoch of two lineages published")
    kept = _stage(case, sink, [5, 6], epoch=3)
    _discard(case, attempt=9, keep=None, lineage="b00c")
    _publish(case, kept)
    _sees(case, range(1, 7), "published after another lineage's discard")


def _is_discarding_nothing_gladly(case: SinkCase) -> None:
    """discards where nothing was ever staged or prepared"""
    _discard(case, attempt=1, keep=None)
    sink = _ready(case)
    _discard(case, attempt=2, keep=None)
    token = _stage(case, sink, [1], attempt=2, epoch=3)
    _publish(case, token)
    _sees(case, [1], "published after discards of nothing")


def _is_prepared_again(case: SinkCase) -> None:
    """prepares again until the first epoch commits, as after a crash"""
    for _ in range(2):
        _ready(case)
    token = _stage(case, _ready(case), range(4))
    _publish(case, token)
    _sees(case, range(4), "prepared three times")


def _is_done_without_leftovers(case: SinkCase) -> None:
    """leaves nothing beside the rows when all is published"""
    sink = _ready(case)
    token: Token | None = None
    for epoch in (2, 3, 4):
        token = _stage(case, sink, [epoch], epoch=epoch)
        _publish(case, token)
    sink.close()
    _discard(case, attempt=2, keep=token)
    _sees(case, [2, 3, 4], "published in three epochs")
    _has_left_nothing(case)


def _is_staged_on_executors(case: SinkCase) -> None:
    """stages and publishes as an unpickled copy, closed ones too, and small parts that JSON knows"""
    sink = _ready(case)
    copies: list[Sink] = [pickle.loads(pickle.dumps(sink)) for _ in range(2)]
    parts = [_part(case, copy, [task], task=task) for task, copy in enumerate(copies)]
    for copy in copies:
        copy.close()
    size = len(json.dumps(parts))
    assert size < 4_000, f"two parts of one row each have {size} bytes"
    publisher: Sink = pickle.loads(pickle.dumps(sink))
    publisher.publish(a_token(parts))
    _sees(case, [0, 1], "staged by copies")


def _is_staging_many_batches(case: SinkCase) -> None:
    """takes a task of many batches whole"""
    sink = _ready(case)
    scope = _scope(case, epoch=2)
    batches = [a_batch(range(i * 10, i * 10 + 10), case.table.path) for i in range(20)]
    part = sink.stage(scope, iter(batches))
    assert part is not None
    _publish(case, a_token([part], epoch=2))
    _sees(case, range(200), "published after 20 batches")


def _is_unharmed_by_a_failing_read(case: SinkCase) -> None:
    """shows nothing of a task whose source failed half-way"""
    sink = _ready(case)

    class SourceFailed(Exception):
        pass

    def failing() -> object:
        yield a_batch(range(3), case.table.path)
        raise SourceFailed

    try:
        sink.stage(_scope(case, epoch=2), failing())  # type: ignore[arg-type]
    except SourceFailed:
        pass
    else:
        raise AssertionError("the failure of the read was swallowed")
    _sees(case, [], "a failed task")
    _discard(case, attempt=2, keep=None)
    _has_left_nothing(case)


def _is_rewinding(case: SinkCase) -> None:
    """takes back by `rewind` what later epochs published, twice if asked, and for good"""
    sink = _ready(case)
    tokens = []
    for epoch in (2, 3, 4):
        tokens.append(_stage(case, sink, [epoch * 10, epoch * 10 + 1], epoch=epoch))
        _publish(case, tokens[-1])
    staged = _stage(case, sink, [99], epoch=5)
    claim = a_claim(2, tokens[0], a_context())
    case.make(a_context()).discard(claim)
    case.make(a_context()).rewind(claim, 2)
    _sees(case, [20, 21], "rewound to epoch 2")
    case.make(a_context()).rewind(claim, 2)
    _publish(case, tokens[0])
    for token in (*tokens[1:], staged):
        _try_to_publish(case, token)
    _sees(case, [20, 21], "rewound, and published late by the old attempt")
    token = _stage(case, case.make(a_context()), [7], attempt=2, epoch=7)
    _publish(case, token)
    _sees(case, [20, 21, 7], "gone on after a rewind")
    _has_left_nothing(case)


# --------------------------------------------------------------------------------------------- helpers


def _ready(case: SinkCase) -> Sink:
    sink = case.make(a_context())
    sink.prepare([case.table])
    return sink


def _scope(
    case: SinkCase,
    *,
    attempt: int = 1,
    epoch: int = 2,
    task: int = 0,
    try_id: str = "0",
    context: Context | None = None,
) -> StageScope:
    return a_scope(
        attempt=attempt,
        epoch=epoch,
        task=task,
        try_id=try_id,
        context=context,
        tables=[case.table],
    )


def _part(
    case: SinkCase,
    sink: Sink,
    ids: Sequence[int],
    *,
    task: int = 0,
    try_id: str = "0",
    context: Context | None = None,
) -> JsonObject:
    scope = _scope(case, task=task, try_id=try_id, context=context)
    part = sink.stage(scope, iter([a_batch(list(ids), case.table.path)]))
    assert part is not None, "rows were staged and no part came back"
    return part


def _stage(
    case: SinkCase, sink: Sink, ids: Sequence[int], *, attempt: int = 1, epoch: int = 2
) -> Token:
    """One epoch of two tasks, its token as it comes back from checkpoint storage."""
    half = (len(ids) + 1) // 2
    parts: list[JsonObject] = []
    for task, some in enumerate((list(ids)[:half], list(ids)[half:])):
        scope = _scope(case, attempt=attempt, epoch=epoch, task=task)
        rows = [a_batch(some, case.table.path)] if some else []
        part = sink.stage(scope, iter(rows))
        assert (part is None) == (not some), f"{len(some)} rows gave the part {part}"
        parts += [part] if part is not None else []
    return a_token(parts, attempt=attempt, epoch=epoch)


def _publish(case: SinkCase, token: Token, context: Context | None = None) -> None:
    """By a new object, as after a restart."""
    sink = case.make(context or a_context())
    sink.publish(token)
    sink.close()


def _try_to_publish(case: SinkCase, token: Token) -> None:
    """An attempt that was passed may be refused. What it must not do is to show rows."""
    try:
        _publish(case, token)
    except HoldfastError:
        return


def _discard(
    case: SinkCase,
    *,
    attempt: int,
    keep: Token | None,
    context: Context | None = None,
    lineage: str = LINEAGE,
) -> None:
    context = context or a_context()
    sink = case.make(context)
    sink.discard(a_claim(attempt, keep, context, lineage))
    sink.close()


def _sees(case: SinkCase, ids: Sequence[int], when: str) -> None:
    found, wanted = sorted(case.visible()), sorted(ids)
    if found == wanted:
        return
    missing = [id_ for id_ in wanted if id_ not in found]
    extra = [id_ for id_ in found if id_ not in wanted]
    raise AssertionError(
        f"{when}: {len(found)} rows are visible and {len(wanted)} should be"
        f" (missing {missing[:5]}, beyond {extra[:5]}, or doubled)"
    )


def _has_left_nothing(case: SinkCase) -> None:
    left = case.leftovers()
    assert not left, f"it left {len(left)} things behind: {list(left)[:5]}"


def _stages(case: SinkCase) -> str | None:
    guarantee = case.make(a_context()).guarantee
    if guarantee is Guarantee.EXACTLY_ONCE:
        return None
    return f"it writes at once and guarantees {guarantee.value}"


def _rewinds(case: SinkCase) -> str | None:
    return None if case.make(a_context()).rewindable else "it says that it does not rewind"


SINK_RULES: tuple[Rule[SinkCase], ...] = (
    rule_of(_is_as_declared, always),
    rule_of(_is_showing_what_it_took, always),
    rule_of(_is_told_of_no_rows, always),
    rule_of(_is_prepared_again, always),
    rule_of(_is_discarding_nothing_gladly, always),
    rule_of(_is_staging_many_batches, always),
    rule_of(_is_staged_on_executors, always),
    rule_of(_is_hiding_what_is_staged, _stages),
    rule_of(_is_publishing_once, _stages),
    rule_of(_is_publishing_once_for_two, _stages),
    rule_of(_is_publishing_what_the_token_names, _stages),
    rule_of(_is_discarding_what_older_attempts_left, _stages),
    rule_of(_is_sparing_the_kept_token, _stages),
    rule_of(_is_sparing_newer_attempts, _stages),
    rule_of(_is_sparing_its_neighbours, _stages),
    rule_of(_is_telling_lineages_apart, _stages),
    rule_of(_is_unharmed_by_a_failing_read, _stages),
    rule_of(_is_done_without_leftovers, _stages),
    rule_of(_is_rewinding, _rewinds),
)
