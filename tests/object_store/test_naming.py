"""Names of stores and objects (ADR-20)."""

import pytest

from natsync import ProtocolError
from natsync.object_store import InvalidObjectNameError, InvalidStoreNameError, ObjectMeta
from natsync.object_store.naming import (
    check_object_name,
    check_store_name,
    chunk_subject,
    meta_subject,
    stream_name,
)


def test_names_of_stores() -> None:
    assert check_store_name("My-Store_1") == "My-Store_1"
    assert stream_name("s") == "OBJ_s"
    for wrong in ("", "a.b", "a b", "*", "größe", "a\n"):
        with pytest.raises(InvalidStoreNameError):
            check_store_name(wrong)


def test_any_name_but_the_empty_one_is_an_objects() -> None:
    for name in ("a", " ", "a b.txt", "größe", "a/b/../c", "*", ">", "x" * 1000, "\n"):
        assert check_object_name(name) == name
    with pytest.raises(InvalidObjectNameError):
        check_object_name("")
    with pytest.raises(TypeError, match="name must be str"):
        check_object_name(b"a")  # type: ignore[arg-type]  # a wrong call


def test_subjects_are_those_of_other_clients() -> None:
    assert chunk_subject("s", "N") == "$O.s.C.N"
    assert meta_subject("s", "a/b?.txt") == "$O.s.M.YS9iPy50eHQ="
    assert meta_subject("s", "ü?>") == "$O.s.M.w7w_Pg=="


def test_a_name_that_is_no_utf_8_is_refused_before_anything_is_stored() -> None:
    assert check_object_name("\udcff") == "\udcff"  # a byte that is not UTF-8, as in names of files
    for call in (check_object_name, ObjectMeta):
        with pytest.raises(ProtocolError, match="lone surrogate"):
            call("\ud800")
