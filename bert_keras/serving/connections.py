"""A uvicorn server that limits connections: their number, and the time that a client takes."""

import time
from typing import Any, cast

import uvicorn

# Time until a new connection has sent the headers of its request; also until the next request of an open connection.
_SECONDS_OF_HEADERS = 10.0
# Connections that the server keeps in addition to those of the requests that it answers.
_MORE_CONNECTIONS = 64


class BoundedServer(uvicorn.Server):
    """Closes connections that wait too long, and the oldest ones if there are too many.

    A request that has its place keeps its connection. So clients that send slowly only push out each other.

    Args:
        config: of uvicorn; its `http` is "h11".
        max_queue: as in ServerSettings.
        timeout: seconds until a request has been answered.
    """

    def __init__(self, config: uvicorn.Config, max_queue: int, timeout: float):
        super().__init__(config)
        self._most, self._timeout = 2 * max_queue + _MORE_CONNECTIONS, timeout
        # Connection -> its request (None: it waits for one), and since when.
        self._states = {}

    async def on_tick(self, counter: int) -> bool:
        """uvicorn calls this ten times a second."""
        now, waiting, states = time.monotonic(), [], {}
        for connection in cast(list[Any], list(self.server_state.connections)):  # of h11
            cycle = connection.cycle
            request = cycle if cycle is not None and not cycle.response_complete else None
            before, since = self._states.get(connection, (self, now))
            since = since if before is request else now
            states[connection] = request, since
            # The deadline ends a request; then the client has as much time to receive the answer.
            longest = _SECONDS_OF_HEADERS if request is None else 2 * self._timeout + _SECONDS_OF_HEADERS
            if now - since > longest:
                connection.transport.abort()
            elif request is None or not request.scope.get("is_admitted"):
                waiting.append((since, connection))
        self._states = states
        num_excess = len(self.server_state.connections) - self._most
        for _, connection in sorted(waiting, key=lambda pair: pair[0])[: max(0, num_excess)]:
            connection.transport.abort()
        return await super().on_tick(counter)


def config_of(app: Any, timeout: float) -> uvicorn.Config:
    """Returns the configuration of a server for an application whose requests end within `timeout` seconds."""
    return uvicorn.Config(
        app,
        # It limits the size of headers; the faster ones of other packages do not.
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(timeout) + 1,
    )
