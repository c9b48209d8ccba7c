"""Rendering conversations with Jinja chat templates, and where in the text who speaks.

What a template writes is trusted, what a message says is not: text of a message
that spells a special token is marked before it is rendered and found again behind
it, so that it can be encoded as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from zephon.errors import ConfigError, DataError

_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
"""Code points that Unicode keeps for marks inside a program; text has none of them."""

_OPEN, _CLOSE, _MARK = _NONCHARACTERS[:3]
_MARKS = re.compile(f"[{_OPEN}{_CLOSE}{_MARK}]")

PLAIN = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
)
"""What stands for a template where none is applied: contents end to end."""


class Span(NamedTuple):
    """Characters ``begin`` to ``end - 1``."""

    begin: int
    end: int


@dataclass(frozen=True)
class Rendered:
    """A conversation as text.

    Attributes
    ----------
    text : str
    generated : tuple of Span
        What stood between ``{% generation %}`` tags.
    quoted : frozenset of int
        Where strings of special tokens begin that a message contains.
    """

    text: str
    generated: tuple[Span, ...]
    quoted: frozenset[int]


class ChatTemplate:
    """A compiled template.

    Parameters
    ----------
    source : str
        Jinja, as tokenizers carry it.
    names : mapping
        Strings of special tokens, for ``bos_token`` and the like in the template.
    specials : sequence of str
        Strings that are control tokens if the template writes them.

    Attributes
    ----------
    specials : re.Pattern or None
        Finds those strings, the longest first; None if there are none.

    Raises
    ------
    ConfigError
        The template cannot be parsed, or jinja2 is missing.
    """

    def __init__(self, source: str, names: Mapping[str, str], specials: Sequence[str]) -> None:
        self._template = _compile(source)
        self._names = dict(names)
        ordered = sorted((s for s in specials if s), key=len, reverse=True)
        self.specials = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self.tags_generations = re.search(r"{%-?\+?\s*generation\s*[-+]?%}", source) is not None

    def render(
        self, messages: Sequence[Any], *, add_generation_prompt: bool = False, **variables: Any
    ) -> Rendered:
        """The text of ``messages``.

        Raises
        ------
        DataError
            The template refuses the conversation, or fails on it.
        """
        import jinja2

        # What the tokenizer names is trusted as the template is; what a caller or a record says
        # is not.
        given = {name: self._marked(value) for name, value in variables.items()}
        try:
            text = self._template.render(
                messages=self._marked(messages),
                add_generation_prompt=add_generation_prompt,
                **{**self._names, **given},
            )
        except jinja2.TemplateError as error:
            raise DataError(f"the chat template refuses this conversation ({error})") from error
        except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
            raise DataError(
                f"the chat template fails on this conversation ({type(error).__name__}: {error})"
            ) from error
        return _unmarked(text)

    def _marked(self, value: Any) -> Any:
        """A copy of ``value`` in which no string spells a special token unmarked."""
        if isinstance(value, str):
            if _MARKS.search(value):
                raise DataError(
                    f"a message contains a Unicode noncharacter ({_MARKS.search(value)!r:.60}), "
                    "which no text may: remove it"
                )
            if self.specials is None:
                return value
            return self.specials.sub(lambda found: f"{found[0][0]}{_MARK}{found[0][1:]}", value)
        if isinstance(value, Mapping):
            return {key: self._marked(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._marked(one) for one in value]
        return value


def _unmarked(text: str) -> Rendered:
    """The text without marks, and where they stood."""
    if not _MARKS.search(text):
        return Rendered(text, (), frozenset())
    parts: list[str] = []
    generated: list[Span] = []
    quoted: set[int] = set()
    begin = length = 0
    for part in _pieces(text):
        if part == _OPEN:
            begin = length
        elif part == _CLOSE:
            generated.append(Span(begin, length))
        elif part == _MARK:
            quoted.add(length - 1)  # the mark stands behind the first character
        else:
            parts.append(part)
            length += len(part)
    return Rendered("".join(parts), tuple(generated), frozenset(quoted))


def _pieces(text: str) -> Iterator[str]:
    """Marks, and what is between them."""
    last = 0
    for found in _MARKS.finditer(text):
        yield text[last : found.start()]
        yield found[0]
        last = found.end()
    yield text[last:]


def _compile(source: str) -> Any:
    try:
        import jinja2
        import jinja2.ext
        import jinja2.nodes
        import jinja2.sandbox
    except ImportError as error:
        raise ConfigError(
            "chat templates need the package jinja2: install zephon with its extra 'chat' "
            "(pip install './zephon[chat]') or jinja2 itself"
        ) from error

    class Generation(jinja2.ext.Extension):
        """The tag pair around what an assistant generates."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            """A call block, whose body is marked."""
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_mark", [], lineno=line)
            return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _mark(self, caller: Any) -> str:
            return f"{_OPEN}{caller()}{_CLOSE}"

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    # The date of today is no function of the configuration: strftime_now stays undefined, and
    # templates that look for it fall back on a fixed date, or on one of chat_template_kwargs.
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"chat_template, line {error.lineno}: {error.message}") from error


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: nothing escaped for HTML."""
    import json

    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
