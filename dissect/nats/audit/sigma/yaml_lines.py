"""YAML documents with the line of each part, so that an error can name the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml


class Document(NamedTuple):
    """One document of a file: its value, and its YAML node, which has the lines."""

    value: object
    node: yaml.Node

    def line(self, *path: str | int) -> int:
        """The line, from 1, of the part at `path` (map keys and list indexes), as far as the path exists."""
        node = self.node
        line = node.start_mark.line
        for step in path:
            if isinstance(node, yaml.MappingNode):
                pairs = [pair for pair in node.value if getattr(pair[0], "value", None) == step]
                if not pairs:
                    break
                key, node = pairs[0]
                line = key.start_mark.line
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                if step >= len(node.value):
                    break
                node = node.value[step]
                line = node.start_mark.line
            else:
                break
        return line + 1


class YamlFault(Exception):
    """A text is not YAML, or a map has a key twice. `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


# libyaml reads the package's rules in a tenth of the time (30 ms instead of 300 ms), but a text that is
# nested too deeply makes it crash the process. Some builds of PyYAML lack it.
_OF_TRUSTED = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str, trusted: bool = False) -> Iterator[Document]:
    """The non-empty documents of a file. A `trusted` text is parsed by libyaml. Raises YamlFault."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = (_OF_TRUSTED if trusted else yaml.SafeLoader)(text)
        while loader.check_node():
            node = loader.get_node()
            if (
                node is None
                or isinstance(node, yaml.ScalarNode)
                and node.value in ("", "null", "~")
            ):
                continue
            _refuse_twice(node)
            yield Document(loader.construct_document(node), node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(mark.line + 1 if mark else 1, error.problem or "no YAML") from None
    except yaml.YAMLError as error:
        raise YamlFault(1, str(error)) from None
    except (ValueError, OverflowError) as error:  # from an impossible date or number
        raise YamlFault(1, str(error)) from None
    except RecursionError:
        raise YamlFault(1, "it is nested too deeply") from None
    finally:
        if loader is not None:
            loader.dispose()


def _refuse_twice(node: yaml.Node) -> None:
    """Refuses a map that has a key twice: YAML forbids it, but the library keeps the last value."""
    waiting, seen = [node], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:  # an alias
            continue
        seen.add(id(one))
        if isinstance(one, yaml.SequenceNode):
            waiting += one.value
        elif isinstance(one, yaml.MappingNode):
            keys = set()
            for key, value in one.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys:
                        raise YamlFault(key.start_mark.line + 1, f"{key.value!r} stands here twice")
                    keys.add(key.value)
                waiting.append(value)
