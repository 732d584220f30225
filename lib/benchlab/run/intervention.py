"""Let the target's agent carry out a schedule while the load runs."""

import json
import subprocess
from contextlib import suppress

from benchlab.attribution import blocks
from benchlab.errors import RunFailed
from benchlab.run.schedule import Block, schedule
from benchlab.study.intervention import LimitBlocks
from benchlab.study.resources import LOWERED
from benchlab.target.host import AGENT, Host, kill

#: The agent restores the limits within milliseconds, unless another of its commands holds the host.
_END_TIMEOUT_S = 60


class RunningIntervention:
    """An intervention that the target's agent carries out.

    The agent itself restores the limits: at the end of the schedule, and when the pipe to it closes.
    """

    def __init__(self, node: Host, requested: LimitBlocks, seed: int):
        """Hand over the schedule; nothing is lowered before :meth:`begin`.

        Args:
            node: node whose limits are lowered.
            requested: the blocks.
            seed: seed of their order.

        Raises:
            RunFailed: the agent refuses it; the message is its reason.
        """
        self.duration_s = requested.duration_s
        self._agent = node.popen(
            *AGENT,
            "intervene",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._send(json.dumps([_request(block) for block in schedule(requested, seed)]))
        self._header = self._agent.stdout.readline()
        if not self._header:
            raise RunFailed(self.end()[1] or "intervention: the agent did not begin")

    def begin(self) -> None:
        """Start the first block now."""
        self._send("begin")

    def end(self) -> tuple[dict[str, bytes], str | None]:
        """End the intervention, whether or not its schedule is complete.

        Returns:
            The capture, which is the agent's output; and why the agent broke off, or ``None``.
        """
        try:
            printed, said = self._agent.communicate(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            kill(self._agent)
            self._agent.communicate()
            late = f"intervention: the agent did not end in {_END_TIMEOUT_S} s"
            return {blocks.FILE: self._header}, late
        problem = None
        if self._agent.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit code {self._agent.returncode}"
            problem = f"intervention broke off: {reason}"
        return {blocks.FILE: self._header + printed}, problem

    def _send(self, line: str) -> None:
        with suppress(BrokenPipeError):  # `end` returns why the agent is gone
            self._agent.stdin.write(line.encode() + b"\n")
            self._agent.stdin.flush()


def _request(block: Block) -> dict:
    limit = LOWERED[block.resource].limit.agent if block.resource else None
    return {"limit": limit, "factor": block.factor, "duration_s": block.duration_s}
