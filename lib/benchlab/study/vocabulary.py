"""Metrics: names, labels and units of the numbers of a run, for claims and charts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """Name of a metric in prose, and its unit."""

    label: str
    unit: str
    is_of_the_dataset: bool = False
    """Whether it is a property of the dataset: the same in every trial if the workload only reads."""

    is_of_any_store: bool = False
    """Whether it follows from the server's own logic, whatever its storage."""

    depends_on_the_run: bool = False
    """Whether it differs from run to run, so that several single writes of a run are one trial."""

    @property
    def heading(self) -> str:
        """Name and unit, as heading of a column or a chart: ``mean latency (µs)``."""
        unit = self.unit.replace("/", " per ").removeprefix("1 ")
        return f"{self.label} ({unit})"


#: Name → metric; claims and the columns of :func:`benchlab.store.metrics.of` have these names.
METRICS = {
    "tps": Metric("throughput", "transactions/s"),
    "qps": Metric("queries, including repeated transactions", "queries/s"),
    "errors_per_transaction": Metric(
        "errors after which a transaction was repeated", "1/transaction"
    ),
    "p50_us": Metric("median latency", "µs"),
    "p99_us": Metric("99th percentile of latency", "µs"),
    "p999_us": Metric("99.9th percentile of latency", "µs"),
    "latency_mean_us": Metric("mean latency", "µs"),
    "engine_cpu_us_per_transaction": Metric("CPU time of the engine", "µs/transaction"),
    "cpu_percent": Metric(
        "share of the envelope's CPU used by engine, load generator and kernel threads", "%"
    ),
    "engine_cpu_percent": Metric("share of the envelope's CPU used by the engine", "%"),
    "client_cpu_percent": Metric("share of the envelope's CPU used by the load generator", "%"),
    "kernel_cpu_percent": Metric("share of the envelope's CPU used by kernel threads", "%"),
    "foreign_cpu_percent": Metric("share of the host's CPU used by others", "%"),
    "memory_copy_us": Metric("CPU time of copying 8 MiB before or after the run", "µs"),
    "client_cpu_us_per_transaction": Metric("CPU time of the client", "µs/transaction"),
    "written_kb_per_transaction": Metric("bytes written to disk", "kB/transaction"),
    "read_kb_per_transaction": Metric("bytes read from disk", "kB/transaction"),
    "context_switches_per_transaction": Metric("context switches", "1/transaction"),
    "checkpoints_per_s": Metric("checkpoints", "1/s"),
    "wal_bytes_per_transaction": Metric("WAL", "bytes/transaction"),
    "wal_bytes_per_checkpoint": Metric("WAL between two checkpoints", "bytes"),
    "wal_writes_per_s": Metric("durable writes of the WAL", "writes/s"),
    "wal_write_mean_us": Metric("mean time of a durable write of the WAL", "µs"),
    "wal_write_concurrency": Metric("concurrent durable writes of the WAL", "writes"),
    "wal_bytes_per_write": Metric("WAL of a durable write", "bytes/write"),
    "full_pages_per_transaction": Metric("pages logged in full", "1/transaction"),
    "cached_reads_per_transaction": Metric(
        "reads from the server's cache of a table", "1/transaction", is_of_any_store=True
    ),
    "storage_reads_per_transaction": Metric(
        "requests to read that the server sends to its storage",
        "1/transaction",
        is_of_any_store=True,
    ),
    "tpmc": Metric("New-Orders (tpmC if paced as TPC-C requires)", "New-Orders/min"),
    "tpmc_per_warehouse": Metric("New-Orders per warehouse", "New-Orders/min"),
    "tps_after_cycle_percent": Metric(
        "throughput in the 5 s after a background cycle of the engine begins, relative to the rest",
        "%",
    ),
    "dataset_bytes": Metric("dataset size reported by the server", "bytes", True),
    "dataset_bytes_per_row": Metric("dataset size per row", "bytes", True),
    "data_dir_bytes": Metric("size of the data directory, log and system tables included", "bytes"),
}

#: Name → metric of a single write into a load that reads; the other metrics are those of a run.
OF_SINGLE_WRITES = {
    "commit_wait_s": Metric("latency of a single write's COMMIT", "s"),
    "commit_wait_beyond_lease_s": Metric(
        "latency of a single write's COMMIT beyond the lease", "s"
    ),
    "write_lease_s": Metric("time for which a table may be written after a single write", "s"),
    "reads_in_write_lease_percent": Metric(
        "throughput of the readers in the write lease, of that before the write",
        "%",
        depends_on_the_run=True,
    ),
    "reads_after_write_lease_percent": Metric(
        "throughput of the readers after the write lease, of that before the write",
        "%",
        depends_on_the_run=True,
    ),
}

#: Name → metric that a claim may name.
OF_CLAIMS = METRICS | OF_SINGLE_WRITES

#: Metrics of the dataset, which do not depend on the number of clients.
OF_DATASET = (
    *(name for name, metric in METRICS.items() if metric.is_of_the_dataset),
    "data_dir_bytes",
)
