"""The screens for people: a menu, and input and output of each transaction (clauses 2.4.3 to 2.8.3)."""

import re
import urllib.parse
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

import jinja2
import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from benchlab.drivers.tpcc.was import forms
from benchlab.drivers.tpcc.was.execute import Refused, TransactionFailed
from benchlab.drivers.tpcc.was.forms import Gone, MalformedForm
from benchlab.drivers.tpcc.was.service import Service
from benchlab.errors import UnknownName
from benchlab.workloads.tpcc.transactions.contract import INVALID_ITEM, REQUESTS, OrderedItem

#: Type of a transaction → its name on screens, and its purpose.
TITLES = {
    "new_order": ("New-Order", "Take an order of a customer."),
    "payment": ("Payment", "Take a payment of a customer."),
    "order_status": ("Order-Status", "See a customer's last order."),
    "delivery": ("Delivery", "Deliver the oldest open order of each district."),
    "stock_level": ("Stock-Level", "Count recently sold items that are low in stock."),
}

#: Field of a form → its name on screens.
LABELS = {
    "w_id": "Warehouse",
    "d_id": "District",
    "c_id": "Customer number",
    "c_last": "Last name",
    "c_w_id": "Customer's warehouse",
    "c_d_id": "Customer's district",
    "h_amount": "Amount in $",
    "o_carrier_id": "Carrier",
    "threshold": "Stock below",
    "i_id": "Item",
    "supply_w_id": "Supplying warehouse",
    "quantity": "Quantity",
}

_LABELLED = re.compile(rf"\b({'|'.join(LABELS)})\b")

_LINE = OrderedItem.__struct_fields__

#: Format of numbers; all fields except names are numbers.
_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]+)?")

#: Most fields of a form; no screen has more.
_MOST_FIELDS = 100

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"


def _percent(share: Decimal) -> str:
    return f"{100 * share:.2f} %"


def _time(when: datetime | None) -> str:
    """Format a time for screens (clause 2.4.3.1); ``None`` is shown as an empty text."""
    return f"{when:%d-%m-%Y %H:%M:%S}" if when else ""


_templates.filters |= {"money": _money, "percent": _percent, "time": _time}
_templates.globals |= {
    "titles": TITLES,
    "invalid_item": INVALID_ITEM,
    "labels": LABELS,
    "lines": forms.LINES,
}


class Screens:
    """The screens of one server."""

    def __init__(self, service: Service, database: str, has_database: bool) -> None:
        """Set up the screens.

        Args:
            service: service that the forms go to.
            database: name of what answers; every screen shows it.
            has_database: whether answers come from a database; if not, every screen says so.
        """
        self._service = service
        self._shared = {"database": database, "has_database": has_database}

    @property
    def routes(self) -> list[Route]:
        """Return the paths of the screens."""
        return [
            Route("/", self._menu),
            Route("/{type}", self._input),
            Route("/{type}", self._output, methods=["POST"]),
        ]

    async def _menu(self, request: HttpRequest) -> Response:
        return self._screen("menu.html", error=None)

    async def _input(self, request: HttpRequest) -> Response:
        """Show the form; fields in the query string of the URL are filled in."""
        name = request.path_params["type"]
        if name not in REQUESTS:
            return self._unknown(name)
        try:
            query = request.scope["query_string"].decode(errors="replace")
            return self._form(name, _entered(query))
        except MalformedForm as error:
            return self._form(name, {}, error, 400)

    async def _output(self, request: HttpRequest) -> Response:
        name = request.path_params["type"]
        if name not in REQUESTS:
            return self._unknown(name)
        entered: dict[str, list[str]] = {}
        try:
            sent = await forms.body(request.receive)
            entered = _entered(sent.decode(errors="replace"))
            asked = forms.of_fields(name, _fields(name, entered))
            done = await self._service.answer(asked)
        except MalformedForm as error:
            self._service.count_malformed(name)
            return self._form(name, entered, error, 400)
        except TransactionFailed as error:
            return self._form(name, entered, error, 500)
        except Refused as error:
            return self._form(name, entered, error, 503)
        except Gone:
            return Response()
        return self._screen(f"{name}_answer.html", name=name, asked=asked, done=done)

    def _form(
        self,
        name: str,
        entered: Mapping[str, list[str]],
        error: Exception | None = None,
        status: int = 200,
    ) -> Response:
        said = error and _labelled(error)
        return self._screen(f"{name}.html", status, name=name, entered=entered, error=said)

    def _screen(self, template: str, status: int = 200, **shown: object) -> Response:
        page = _templates.get_template(template).render(self._shared | shown)
        return HTMLResponse(page, status)

    def _unknown(self, name: str) -> Response:
        return self._screen("menu.html", 404, error=UnknownName("transaction", name, REQUESTS))


def _entered(text: str) -> dict[str, list[str]]:
    """Return what was entered: field → values; a field of order lines has one value for each line."""
    try:
        found = urllib.parse.parse_qs(
            text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="replace"
        )
    except ValueError as error:
        raise MalformedForm(str(error)) from error
    return {field: [value.strip() for value in values] for field, values in found.items()}


def _fields(name: str, entered: Mapping[str, list[str]]) -> dict[str, object]:
    """Return the fields of a request, without those left blank."""
    given: dict[str, object] = {
        field: values[-1]
        for field, values in entered.items()
        if values[-1] and not (name == "new_order" and field in _LINE)
    }
    if name == "new_order":
        home = given.get("w_id", "")
        columns = [entered.get(field, []) for field in _LINE]
        rows = [dict(zip(_LINE, row, strict=True)) for row in zip_longest(*columns, fillvalue="")]
        # the supplying warehouse is this one unless another is named
        given["lines"] = [
            row | {"supply_w_id": row["supply_w_id"] or home} for row in rows if any(row.values())
        ]
    for row in (given, *given.get("lines", ())):
        for field, value in row.items():
            if field not in ("c_last", "lines") and not _NUMBER.fullmatch(value):
                raise MalformedForm(f"{field} must be a number, not {value!r}")
    for field in msgspec.structs.fields(REQUESTS[name]):
        if field.required and field.name not in given:
            raise MalformedForm(f"{field.name} is missing")
    return given


def _labelled(error: Exception) -> str:
    """Return an error's message, with fields named as on screens."""
    return _LABELLED.sub(lambda found: LABELS[found[0]], str(error))
