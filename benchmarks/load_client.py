"""A client that sends requests over many connections at once and takes little of the processor."""

import asyncio
import dataclasses
import json
import time
import urllib.parse

from bert_keras.mistakes import Mistake

JSON = {"Content-Type": "application/json"}


@dataclasses.dataclass(frozen=True)
class Turn:
    """The result of a turn: requests/s, and the times of all requests in seconds, ascending."""

    rate: float
    times: list[float]

    def percentile(self, share: float) -> float:
        """Returns the time within which a share of the requests was answered."""
        return self.times[min(len(self.times) - 1, int(share * len(self.times)))]


def http_request(url: str, body: bytes, method: str = "POST", headers: dict[str, str] | None = None) -> bytes:
    """Returns a request as bytes."""
    host, _, path = url.removeprefix("http://").partition("/")
    lines = [f"{method} /{path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_response(reader: asyncio.StreamReader, has_body: bool = True) -> tuple[int, bytes]:
    """Returns the status and the body of the next response on a connection; `has_body` is false for HEAD."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, fields = int(head[9:12]), dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    if status == 100:  # the server asks for the body, which it has
        return await read_response(reader, has_body)
    return status, await reader.readexactly(int(fields.get(b"content-length", 0)) if has_body else 0)


async def ask(url: str, body: object) -> dict:
    """Sends one request and returns the JSON of its answer."""
    host, _, port = urllib.parse.urlsplit(url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(http_request(url, json.dumps(body).encode(), headers=JSON))
    status, content = await read_response(reader)
    writer.close()
    await writer.wait_closed()
    if status != 200:
        raise Mistake("{} answers {}: {}", url, status, content.decode())
    return json.loads(content)


async def run_turn(url: str, requests: list[bytes], num_clients: int, seconds: float) -> Turn:
    """Lets several clients send requests for some seconds. Each sends its next one when it has its answer."""
    host, _, port = urllib.parse.urlsplit(url).netloc.partition(":")
    times, started = [], time.perf_counter()

    async def send_all(number):
        reader, writer = await asyncio.open_connection(host, int(port))
        index = number
        while (sent := time.perf_counter()) - started < seconds:
            writer.write(requests[index % len(requests)])
            status, content = await read_response(reader)
            if status != 200:
                raise Mistake("{} answers {}: {}", url, status, content.decode())
            times.append(time.perf_counter() - sent)
            index += num_clients
        writer.close()
        await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for number in range(num_clients):
            group.create_task(send_all(number))
    return Turn(len(times) / (time.perf_counter() - started), sorted(times))
