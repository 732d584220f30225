"""The application server as an ASGI application: its paths, and what answers them.

The router has no middleware, so that transactions spend little time outside the database.
"""

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from benchlab.drivers.tpcc.was.api import Menu, Transact
from benchlab.drivers.tpcc.was.screens import Screens
from benchlab.drivers.tpcc.was.service import Service


def router(service: Service, database: str, has_database: bool) -> Router:
    """Return the application for a service.

    Args:
        service: service that answers.
        database: name on the screens of what answers.
        has_database: whether answers come from a database.
    """

    async def metrics(request: Request) -> Response:
        return Response(service.metrics.page(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return Router(
        [
            Route("/api/{type}", Transact(service), methods=["POST"]),
            Route("/api/menu/{type}", Menu(), methods=["GET"]),
            Route("/metrics", metrics),
            *Screens(service, database, has_database).routes,
        ],
        redirect_slashes=False,
    )
