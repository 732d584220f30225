"""The JSON API, which terminals use. It is plain ASGI, for speed: every transaction goes through it."""

import msgspec
from starlette.types import Receive, Scope, Send

from benchlab.drivers.tpcc.was import forms
from benchlab.drivers.tpcc.was.execute import Refused, TransactionFailed
from benchlab.drivers.tpcc.was.forms import Gone, MalformedForm
from benchlab.drivers.tpcc.was.service import Service
from benchlab.errors import UnknownName
from benchlab.workloads.tpcc.transactions.contract import REQUESTS

_encoder = msgspec.json.Encoder()


class Menu:
    """``GET /api/menu/<type>``: a terminal chooses a transaction and gets its input screen."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the router has matched."""
        name = scope["path_params"]["type"]
        await (_send(send, 200, b"{}") if name in REQUESTS else _unknown(send, name))


class Transact:
    """``POST /api/<type>``: a terminal sends its input screen and gets its output screen.

    The status is 200 with the answer, 400 if the form is malformed, 500 if the database failed, and
    503 if the transaction is refused. An error is ``{"error": "why"}``.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the router has matched."""
        name = scope["path_params"]["type"]
        if name not in REQUESTS:
            await _unknown(send, name)
            return
        try:
            request = forms.of_json(name, await forms.body(receive))
            status, said = 200, _encoder.encode(await self._service.answer(request))
        except MalformedForm as error:
            self._service.count_malformed(name)
            status, said = 400, _error(error)
        except TransactionFailed as error:
            status, said = 500, _error(error)
        except Refused as error:
            status, said = 503, _error(error)
        except Gone:
            return
        await _send(send, status, said)


async def _unknown(send: Send, name: str) -> None:
    await _send(send, 404, _error(UnknownName("transaction", name, REQUESTS)))


def _error(error: Exception) -> bytes:
    return _encoder.encode({"error": str(error)})


async def _send(send: Send, status: int, said: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(said)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said})
