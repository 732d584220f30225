"""The requests of terminals and people to the application server, through the API or the screens."""

from dataclasses import dataclass
from time import perf_counter

from benchlab.drivers.tpcc.was.delivery import Deliveries
from benchlab.drivers.tpcc.was.execute import Done, Executor
from benchlab.drivers.tpcc.was.metrics import Metrics
from benchlab.workloads.tpcc.transactions.contract import Delivery, Request


@dataclass(frozen=True)
class Service:
    """The five transactions, as terminals see them."""

    executor: Executor
    deliveries: Deliveries
    metrics: Metrics

    async def answer(self, request: Request) -> Done:
        """Run the transaction of a form; only queue it if it is a delivery (clause 2.7.2.1).

        Raises:
            Refused, TransactionFailed: see :meth:`Executor.run`.
        """
        begin = perf_counter()
        if isinstance(request, Delivery):
            self.deliveries.put(request)
            done = Done(None)
        else:
            done = await self.executor.run(request)
        self.metrics.response[request.type].observe(perf_counter() - begin)
        return done

    def count_malformed(self, name: str) -> None:
        """Count a malformed form.

        Args:
            name: type of its transaction.
        """
        self.metrics.outcomes[name, "malformed"].inc()
