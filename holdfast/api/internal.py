"""What workers call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.api.serving import Serving
from holdfast.model.wire import answer_to_json, heartbeat_from_json

if TYPE_CHECKING:
    from holdfast.api.app import Call


def heartbeat(serving: Serving, call: Call) -> object:
    return answer_to_json(serving.master.hear(heartbeat_from_json(json.loads(call.body))))


ROUTES = (("POST", "/internal/heartbeat", heartbeat),)
