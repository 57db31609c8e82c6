"""PyPI ksqldb and ksql-python-ng: pull, absent key, scan, statements, push, inserts; asserts what a user would see."""
import asyncio
import sys

from ksql import KSQLAPI
from ksqldb import KSQLdbClient

url = sys.argv[1]


def check(got, expected, what):
    assert got == expected, f"{what}: {got!r} instead of {expected!r}"


def ksqldb_client():
    client = KSQLdbClient(url)
    assert any(p["name"] == "ksql.service.id" for p in client.get_properties())
    rows = client.query_sync("SELECT K FROM TL WHERE K='k1';")
    check(rows[1:], [["k1"]], "existing key")
    check(len(client.query_sync("SELECT K FROM TL WHERE K='nobody';")), 1, "absent key")
    check(sorted(r[0] for r in client.query_sync("SELECT K FROM TL WHERE K IN ('k1', 'k2');")[1:]), ["k1", "k2"], "IN")

    async def push():
        rows = []
        async for row in client.query_async("SELECT K, V FROM S EMIT CHANGES LIMIT 3;", timeout=20):
            rows.append(row)
            if len(rows) == 3:
                return rows
        return rows

    check(len(asyncio.run(push())) >= 3, True, "push query")
    acks = client.inserts_stream("S", [{"K": "k1", "V": 1}, {"K": "k2", "V": 2}])
    check([a["status"] for a in acks], ["ok", "ok"], "inserts")


def ksql_python_ng():
    client = KSQLAPI(url, check_version=False)
    tables = client.ksql("LIST TABLES;")[0]["tables"]
    assert any(t["name"] == "TL" for t in tables)
    for http2 in (False, True):
        text = "".join(str(chunk) for chunk in client.query("SELECT K FROM TL WHERE K='k1';", use_http2=http2))
        assert "k1" in text, f"http2={http2}: {text}"


ksqldb_client()
ksql_python_ng()
