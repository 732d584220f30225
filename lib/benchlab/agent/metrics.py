"""A service's page of counters, in Prometheus' text format."""

from __future__ import annotations

import urllib.request

from .config import AgentError

TIMEOUT_S = 10.0


def page(who: str, url: str) -> str:
    """Return the service's answer. Raises AgentError that names ``who`` and ``url`` if it has none."""
    # without the environment's proxy, as the service is on this host
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            return answer.read().decode(errors="replace")
    except OSError as error:
        raise AgentError(f"{who}: no metrics from {url}: {error}") from None
