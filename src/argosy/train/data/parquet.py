"""Texts out of one column of a Parquet file, row by row.

The only module that knows pyarrow.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from argosy.contracts.errors import BadInputError
from argosy.train.data.fields import missing_field, wrong_type

_BATCH_ROWS = 256


def parquet_texts(path: Path, text_field: str) -> Iterator[tuple[str, float]]:
    """Yield each row's text and how much of the file is read (0 to 1); a null is an empty text.

    Raises BadInputError naming the file, and the row where one is at fault.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check_column(path, file.schema_arrow, text_field)
            rows, total_rows = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=[text_field]):
                for value in batch.column(0):
                    rows += 1
                    yield _text(path, rows, text_field, value), rows / total_rows
    except pa.ArrowException as error:
        raise BadInputError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from error


def _check_column(path: Path, schema: pa.Schema, text_field: str) -> None:
    if text_field not in schema.names:
        raise missing_field(str(path), text_field, schema.names)
    kind = schema.field(text_field).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise wrong_type(str(path), text_field, str(kind))


def _text(path: Path, row: int, text_field: str, value: pa.Scalar) -> str:
    try:
        text: str | None = value.as_py()
    except UnicodeDecodeError as error:
        raise BadInputError(
            f'{path}: row {row}: "{text_field}" is not UTF-8: {error.reason} at byte {error.start}'
        ) from error
    return text or ""
