"""Tables of Apache Iceberg as a sink: `--out iceberg:CATALOG.NAMESPACE`, through pyiceberg (extra `iceberg`).

The catalog is one that pyiceberg is configured for, in ~/.pyiceberg.yaml or the environment
(PYICEBERG_CATALOG__LAKE__URI ...). Tasks write Parquet files to the locations of the tables, and `publish`
commits them: one snapshot of each table. Rows of other captures stay. A run replaces the files of earlier
runs over the same captures, so that nothing is there twice; the names of captures are properties of the
table. Schemas only gain columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from ..errors import DissectError, SparkError, imported
from ..output.arrow.records import schema
from ..output.arrow.types import pyarrow
from ..output.day_files import WrittenFile
from ..storage import masked, s3_access
from .output import InPlaceWriter, filesystem
from .sink import NewWriter, one_name, replaced_runs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_BEGIN = "iceberg:"
_CAPTURES = "nats-dissect.captures."
_MAPPING = "schema.name-mapping.default"


def is_iceberg(out: str) -> bool:
    """Whether an output is a namespace of Iceberg."""
    return out.startswith(_BEGIN)


class IcebergSink:
    """The tables of a namespace. `captures` are the files that a run reads, `tables` what it writes."""

    def __init__(self, out: str, captures: Sequence[str], tables: Iterable[str]) -> None:
        self.out = out
        catalog, _, namespace = out.removeprefix(_BEGIN).partition(".")
        if not catalog or not namespace:
            raise SparkError(f"{out}: is not iceberg:CATALOG.NAMESPACE")
        self._catalog_name = catalog
        self._namespace = tuple(namespace.split("."))
        self._captures = sorted({one_name(path) for path in captures})
        self._tables = tuple(tables)
        self._locations: dict[str, str] = {}
        self._key = sha256("\n".join(self._captures).encode("utf-8", "replace")).hexdigest()[:16]

    def check(self) -> None:
        """Raises SparkError if the catalog cannot be used, or if a run over these captures would leave only a
        part of an earlier run."""
        with self._catalog() as catalog:
            for name in self._tables:
                if catalog.table_exists((*self._namespace, name)):
                    self._replaced(catalog.load_table((*self._namespace, name)))

    def begin(self, run: str) -> str:
        """Creates what is missing: the namespace, tables and columns."""
        with self._catalog() as catalog:
            catalog.create_namespace_if_not_exists(self._namespace)
            for name in self._tables:
                table = _created(catalog, (*self._namespace, name), _columns(name))
                self._locations[name] = f"{table.location()}/data/{self._key}-{run}"
        return run

    def writer(self, run: str) -> NewWriter:
        """The factory of a run's writers."""
        return partial(InPlaceWriter, self.out, self._locations, run)

    def publish(
        self,
        run: str,
        tables: Iterable[str],
        written: Iterable[WrittenFile],
        mark: Mapping[str, object],
    ) -> None:
        """Commits the files of a run, one snapshot for each table that they change."""
        files = [*written]
        with self._catalog() as catalog:
            for name in tables:
                paths = [one.path for one in files if one.table == name]
                self._commit(catalog.load_table((*self._namespace, name)), run, paths)

    def discard(self, run: str) -> None:
        """Removes the files of a run from the tables that have no snapshot with them."""
        with suppress(SparkError, OSError), self._catalog() as catalog:
            for name, location in self._locations.items():
                table = catalog.load_table((*self._namespace, name))
                if not any(location in path for path in _data_files(table)):
                    system, folder = filesystem(location)
                    with suppress(FileNotFoundError):
                        system.delete_dir(folder)

    def _commit(self, table: Table, run: str, paths: Sequence[str]) -> None:
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        replaced = self._replaced(table)
        files = _data_files(table)
        old = [files[path] for path in files if any(f"/{key}-" in path for key in replaced)]
        if not paths and not old:
            return
        with table.transaction() as change:
            gone = [f"{_CAPTURES}{key}" for key in replaced if key != self._key]
            if gone:
                change.remove_properties(*gone)
            change.set_properties({f"{_CAPTURES}{self._key}": json.dumps(self._captures)})
            properties = {"nats-dissect.run": run}
            metadata = change.table_metadata
            with change.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
                for each in old:
                    snapshot.delete_data_file(each)
                for each in parquet_files_to_data_files(table.io, metadata, iter(paths)):
                    snapshot.append_data_file(each)

    def _replaced(self, table: Table) -> list[str]:
        """The keys of the earlier runs that a run over these captures replaces. Raises SparkError."""
        earlier = {
            name.removeprefix(_CAPTURES): json.loads(value)
            for name, value in table.properties.items()
            if name.startswith(_CAPTURES)
        }
        return replaced_runs(self.out, earlier, self._captures)

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        load_catalog = imported("pyiceberg.catalog", "iceberg", "pyiceberg").load_catalog
        access = s3_access()
        properties = {
            "s3.endpoint": access.endpoint,
            "s3.region": access.region,
            "s3.access-key-id": access.access_key,
            "s3.secret-access-key": access.secret_key,
            "s3.session-token": access.session_token,
        }
        given = {name: value for name, value in properties.items() if value}
        try:
            catalog = load_catalog(self._catalog_name, **given)
            try:
                yield catalog
            finally:
                catalog.close()
        except DissectError:
            raise
        except Exception as error:  # errors of pyiceberg and its catalogs have no common base
            reason = masked(str(error)) or type(error).__name__
            raise SparkError(
                f"{self.out}: {reason}", "see the configuration of pyiceberg"
            ) from error


def _created(catalog: Catalog, name: tuple[str, ...], columns: pa.Schema) -> Table:
    """A table with at least these columns."""
    table = catalog.create_table_if_not_exists(name, schema=columns)
    if not {column.name for column in columns} <= set(table.schema().column_names):
        with table.update_schema() as change:
            change.union_by_name(columns)
    # Files have names, and no IDs of columns.
    mapping = table.schema().name_mapping.model_dump_json()
    if table.properties.get(_MAPPING) != mapping:
        with table.transaction() as change:
            change.set_properties({_MAPPING: mapping})
    return table


def _columns(table: str) -> pa.Schema:
    """The columns of a table. All may be absent: Iceberg adds no others to a table that exists."""
    return pyarrow().schema([column.with_nullable(True) for column in schema(table)])


def _data_files(table: Table) -> dict[str, DataFile]:
    """The data files of the latest snapshot, by path."""
    return {task.file.file_path: task.file for task in table.scan().plan_files()}
