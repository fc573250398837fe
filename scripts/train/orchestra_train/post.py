"""JSON to a server over HTTP, with a bound on everything."""

import http.client
import time
from urllib.parse import urlsplit


def post_json(url: str, body: str, key: str, timeout_s: float, most_bytes: int) -> tuple[int, bytes]:
    """Status and reply. Redirects are not followed: one would carry the key elsewhere.

    @raises OSError (TimeoutError too where the reply is too long or too slow), http.client.HTTPException
    """
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=timeout_s)
    deadline = time.monotonic() + timeout_s
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    try:
        connection.request("POST", parts.path, body.encode(), headers)
        response = connection.getresponse()
        raw = b""
        while piece := response.read1(65536):
            raw += piece
            if len(raw) > most_bytes or time.monotonic() > deadline:
                raise TimeoutError
        return response.status, raw
    finally:
        connection.close()
