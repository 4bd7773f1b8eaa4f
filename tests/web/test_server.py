"""A server's process: what it loads, and its socket."""

from __future__ import annotations

import socket
import subprocess
import sys

from apod.web.server import listen
from apod.web.settings import ServeSettings


def test_a_server_loads_no_numerics() -> None:
    code = "import sys, apod.web.server; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_answers_do_not_wait_for_nagle() -> None:
    """asyncio sets TCP_NODELAY on connections of sockets that name their protocol, and on no others."""
    with listen(ServeSettings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP
