"""Forms: the input of a terminal or a person, parsed as the request of a transaction.

The limits are those of the columns and of the screens' fields (clauses 1.3, 2.4.3 to 2.8.3). A person
may order 25 of an item; a terminal draws from a smaller range. The database itself reports rows that it
does not have.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TypeVar

import msgspec
from starlette.types import Receive

from benchlab.errors import BenchlabError
from benchlab.workloads.tpcc.dataset import CUSTOMERS, DISTRICTS
from benchlab.workloads.tpcc.transactions.contract import (
    REQUESTS,
    Delivery,
    NewOrder,
    OrderStatus,
    Payment,
    Request,
    StockLevel,
)

#: Order lines on the screen of a New-Order (clause 2.4.3.1); carriers (clause 1.3.1, O_CARRIER_ID).
LINES, CARRIERS = 15, 10

#: Greatest values: of a warehouse number as engines store it; and of the screens' fields for an item,
#: for a quantity or threshold, and for an amount of money.
_WAREHOUSE, _ITEM, _TWO_DIGITS, _AMOUNT = 2**31 - 1, 999_999, 99, Decimal("9999.99")

#: Longest C_LAST, in characters.
_LAST_NAME = 16


#: Most bytes of a form; no valid form is longer.
_LONGEST = 1 << 16

_DECODERS = {name: msgspec.json.Decoder(request) for name, request in REQUESTS.items()}

RequestT = TypeVar("RequestT", bound=Request)


class MalformedForm(BenchlabError):
    """A form that is not a valid request of its transaction; the message says why."""


class Gone(Exception):
    """The sender of the form has closed the connection."""


async def body(receive: Receive) -> bytes:
    """Receive a whole form.

    Raises:
        MalformedForm: it is too long for a form.
        Gone: its sender has closed the connection.
    """
    received = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        received = received + message["body"] if received else message["body"]
        if len(received) > _LONGEST:
            raise MalformedForm(f"a form has {_LONGEST} bytes at most")
        if not message["more_body"]:
            return received


def of_json(name: str, sent: bytes) -> Request:
    """Return the request that was sent as JSON.

    Args:
        name: type of the transaction, one of :data:`REQUESTS`.
        sent: content as received.

    Raises:
        MalformedForm: it is not a valid request.
    """
    try:
        return _checked(_DECODERS[name].decode(sent))
    except msgspec.DecodeError as error:
        raise MalformedForm(str(error)) from error
    except RecursionError:
        raise MalformedForm("JSON is malformed: too deep") from None


def of_fields(name: str, fields: Mapping[str, object]) -> Request:
    """Return the request from the fields of a screen, as text values; see :func:`of_json`."""
    try:
        return _checked(msgspec.convert(fields, REQUESTS[name], strict=False))
    except msgspec.ValidationError as error:
        raise MalformedForm(str(error)) from error


def _checked(request: RequestT) -> RequestT:
    if fault := next(_faults(request), None):
        raise MalformedForm(fault)
    return request


def _faults(request: Request) -> Iterator[str]:
    yield from _within("w_id", request.w_id, 1, _WAREHOUSE)
    match request:
        case NewOrder():
            yield from _within("d_id", request.d_id, 1, DISTRICTS)
            yield from _within("c_id", request.c_id, 1, CUSTOMERS)
            yield from _within("number of lines", len(request.lines), 1, LINES)
            for number, line in enumerate(request.lines, start=1):
                yield from _within(f"i_id of line {number}", line.i_id, 1, _ITEM)
                yield from _within(f"supply_w_id of line {number}", line.supply_w_id, 1, _WAREHOUSE)
                yield from _within(f"quantity of line {number}", line.quantity, 1, _TWO_DIGITS)
        case Payment():
            yield from _within("d_id", request.d_id, 1, DISTRICTS)
            yield from _within("c_w_id", request.c_w_id, 1, _WAREHOUSE)
            yield from _within("c_d_id", request.c_d_id, 1, DISTRICTS)
            yield from _customer(request)
            amount = request.h_amount
            # comparisons with NaN are not defined
            if not (amount.is_finite() and 0 < amount <= _AMOUNT and amount == round(amount, 2)):
                yield f"h_amount must be from 0.01 to {_AMOUNT} in whole cents, not {amount}"
        case OrderStatus():
            yield from _within("d_id", request.d_id, 1, DISTRICTS)
            yield from _customer(request)
        case Delivery():
            yield from _within("o_carrier_id", request.o_carrier_id, 1, CARRIERS)
        case StockLevel():
            yield from _within("d_id", request.d_id, 1, DISTRICTS)
            yield from _within("threshold", request.threshold, 0, _TWO_DIGITS)


def _within(name: str, value: int, least: int, greatest: int) -> Iterator[str]:
    if not least <= value <= greatest:
        yield f"{name} must be from {least} to {greatest}, not {value}"


def _customer(request: Payment | OrderStatus) -> Iterator[str]:
    """Check that a customer is named by number or by last name (clauses 2.5.2.2, 2.6.2.2)."""
    if (request.c_id is None) == (request.c_last is None):
        yield "either c_id or c_last must name the customer"
    if request.c_id is not None:
        yield from _within("c_id", request.c_id, 1, CUSTOMERS)
    if request.c_last is not None:
        name = request.c_last
        if not (0 < len(name) <= _LAST_NAME and name.isprintable()):
            yield f"c_last must be of 1 to {_LAST_NAME} printable characters, not {name!a}"
