"""The address of a server: its port, and the names by which a client on the same machine calls it."""

import errno
import ipaddress
import socket

from bert_keras.mistakes import Mistake


def open_port(host: str, port: int) -> socket.socket:
    """Returns a socket with its address. Clients cannot connect to it yet.

    Raises:
        ValueError: the address is not one of this machine, or another program has the port.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except OSError as error:
        raise Mistake("{host} is {}, which is not an address of this machine ({})", host, error.strerror) from None
    listener = socket.socket(family, kind)
    try:
        # A port is free again at once when a server has ended.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Without it, an answer may wait 40 ms for the client to confirm its first part.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _refusal(error, host, port) from None
    return listener


def listen(listener: socket.socket, backlog: int) -> str:
    """Lets clients connect to a socket of `open_port`. Returns the address for a browser.

    Raises:
        ValueError: another program began to listen there in the meantime.
    """
    host, port = listener.getsockname()[:2]
    try:
        listener.listen(backlog)
    except OSError as error:
        raise _refusal(error, host, port) from None
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refusal(error: OSError, host: str, port: int) -> Mistake:
    """Returns the mistake behind an error of the system."""
    if error.errno == errno.EADDRINUSE:
        text = "another program listens at port {} of {}; stop it, or choose another {port} (0: a free one)"
        return Mistake(text, port, host)
    if error.errno == errno.EACCES:
        return Mistake("{port}={} needs more rights; choose one above 1023", port)
    return Mistake("{host} is {}, which is not an address of this machine ({})", host, error.strerror)


def hosts_of(host: str) -> tuple[str, ...]:
    """Returns the names of a server that only listens to its own machine; () if it listens to others."""
    names = ("localhost", "127.0.0.1", "::1")
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    return tuple(dict.fromkeys((*names, host))) if is_loopback else ()
