"""The fields that a rule can name, as SQL over the rows of its table.

    subject                 a column of the rule's table
    session.user            a column of `sessions`, for the session that the row belongs to
    headers.Nats-Msg-Id     a header; the values of a header are a list
    frames_originator.PUB   a count; absent where it would be 0
    json.tls_required       a value in a JSON column, as text; `json.a.b` for nested objects
    originator.ip           the address or port of `ip:port`
    bytes_responder.times_median    the value divided by the column's median over rows of the same `kind`
    tenant                  the account of the row, see `_tenant`

The row of `sessions` is joined only if a rule names one of its columns.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import instead
from ...schema.declaration import Type
from ...tables import TABLES
from .dialect import Dialect, literal
from .query import ROW, SESSION

_JSON = {"json", "request", "response", "config"}
_ADDRESSES = {"originator", "responder", "proxied_for"}
_MEDIAN = "times_median"
TENANT = "tenant"
_KEY = re.compile(r"\w+", re.ASCII)
_MAPS = (Type.COUNTS, Type.HEADERS)


class Field(NamedTuple):
    """A field as SQL. `json`: the text is extracted from JSON. `joined`: it needs the row of the session."""

    name: str
    sql: str
    type: Type
    json: bool = False
    joined: bool = False


def field_of(table: str, name: str, dialect: Dialect) -> Field:
    """The field of this name. Raises ValueError, which suggests a name or lists the columns."""
    if name.startswith("session.") and table != "sessions" and "session" in _columns(table):
        found = _field("sessions", name.removeprefix("session."), SESSION, dialect)
        return found._replace(name=name, joined=True)
    if name == TENANT and "session" in _columns(table):
        return _tenant(table)
    return _field(table, name, ROW, dialect)


def searched_fields(table: str) -> list[Field]:
    """The fields that a keyword is searched in: all texts, lists of texts, and headers."""
    found = []
    for name, type_ in _columns(table).items():
        sql = f"{ROW}.{name}"
        if type_ in (Type.TEXT, Type.TEXTS):
            found.append(Field(name, sql, type_))
        elif type_ is Type.HEADERS:
            found.append(Field(name, f"map_keys({sql})", Type.TEXTS))
            found.append(Field(name, f"flatten(map_values({sql}))", Type.TEXTS))
    return found


def _columns(table: str) -> dict[str, Type]:
    return {column.name: column.type for column in TABLES[table].columns}


def _field(table: str, name: str, row: str, dialect: Dialect) -> Field:
    columns = _columns(table)
    column, _, rest = name.partition(".")
    if column not in columns:
        raise ValueError(f"{table} has no column {column!r}{instead(column, it=columns)}")
    type_, sql = columns[column], f"{row}.{column}"
    if type_ is Type.TIME:
        raise ValueError(f"{column!r} is for people; {TABLES[table].time!r} has the same time")
    if not rest:
        return Field(name, sql, type_)
    if type_ in _MAPS:
        item = Type.INTEGER if type_ is Type.COUNTS else Type.TEXTS
        return Field(name, f"{sql}[{literal(rest)}]", item)
    if type_ is Type.TEXT and column in _JSON:
        keys = rest.split(".")
        if not all(map(_KEY.fullmatch, keys)):
            raise ValueError(f"{name!r}: keys of JSON are words of letters, digits and _")
        return Field(name, dialect.json_text(sql, keys), Type.TEXT, json=True)
    if column in _ADDRESSES and rest in ("ip", "port"):
        return _part_of_address(name, sql, rest)
    if type_ is Type.INTEGER and rest == _MEDIAN and "kind" in columns:
        return _times_median(table, name, column, row)
    raise ValueError(f"{column!r} is not a map and has no part {rest!r}")


def _times_median(table: str, name: str, column: str, row: str) -> Field:
    """The value divided by the median, rounded down. A median below 1 counts as 1, to avoid division by 0."""
    median = f"SELECT greatest(median(b.{column}), 1) FROM {table} AS b WHERE b.kind = {row}.kind"
    return Field(name, f"CAST(floor({row}.{column} / ({median})) AS BIGINT)", Type.INTEGER)


def _tenant(table: str) -> Field:
    """The account of a row, by which rules tell apart what has the same name in two accounts: that of its
    frame, or that of its connection. A client of a server that is itself a leafnode has the account that the
    hub binds this leafnode to, if that is one: there, the names of accounts are the server's own. Empty if
    unknown, as with servers before 2.10."""
    row = ROW if table == "sessions" else SESSION
    hubs = "SELECT CASE WHEN min(l.account) = max(l.account) THEN min(l.account) END FROM sessions AS l"
    hub = f"{hubs} WHERE l.kind = 'leafnode' AND l.remote_name = {row}.server_name"
    known = [f"CASE WHEN {row}.kind = 'client' THEN ({hub}) END", f"{row}.account", "''"]
    if table != "sessions" and "account" in _columns(table):
        known.insert(0, f"{ROW}.account")
    return Field(TENANT, f"coalesce({', '.join(known)})", Type.TEXT, joined=table != "sessions")


def _part_of_address(name: str, sql: str, part: str) -> Field:
    if part == "ip":
        host = f"regexp_replace({sql}, ':[0-9]+$', '')"
        return Field(name, f"translate({host}, '[]', '')", Type.TEXT)
    port = f"try_cast(regexp_replace({sql}, '^.*:', '') AS BIGINT)"
    return Field(name, port, Type.INTEGER)
