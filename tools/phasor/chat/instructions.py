"""The instructions of a chat program: one table, from which the compiler and the assembler take
what they know. src/text/chat/instructions.h has the same table for the engine and file-format.md
(CHAT) for people; tests/python/test_chat_instructions.py compares the three row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

from phasor.errors import PhasorError, printable

LIMITS = {
    "operations": 1 << 16,
    "texts": 1 << 14,
    "bytes of text": 1 << 20,
    "variables": 64,
    "values at once": 32,
}
MAX_LOOPS = 2  # in one another

# The argument of STRIP: at the front, at the end, with characters of one's own.
STRIP_LEFT, STRIP_RIGHT, STRIP_CHARS = 1, 2, 4

# Kinds of values, as the bits of the instruction TEST. A dict is a message.
BITS = {"undefined": 1, "none": 2, "bool": 4 | 8, "int": 16, "str": 32, "list": 64, "message": 128}
ANY = frozenset(BITS)
NUMBERS = frozenset({"int", "bool"})
ORDERED = NUMBERS | {"str"}
WRITTEN = ORDERED | {"undefined", "none"}  # what STR makes a text of
_SETS = {"any": ANY, "number": NUMBERS, "ordered": ORDERED, "written": WRITTEN, "nothing": set()}

# Name, operand, the kinds of the value that is put on the stack, and of each value that is taken,
# the last one on top. An instruction's number is its place.
_TABLE = """
    END          zero     nothing
    LINE         line     nothing
    LABEL        place    nothing
    TEXT         text     nothing
    EMIT         zero     nothing            written
    EMIT_STRING  zero     nothing            str
    NONE         zero     none
    UNDEFINED    zero     undefined
    BOOL         flag     bool
    INT          integer  int
    STRING       text     str
    LOAD         slot     any
    STORE        slot     nothing            any
    POP          zero     nothing            any
    MESSAGES     zero     list
    PROMPT       zero     bool
    ITEM         item     undefined|message
    INDEX        loop     int
    COUNT        loop     int
    ROLE         zero     str                message
    CONTENT      zero     str                message
    FIELD        zero     undefined          message
    ELEMENT      zero     undefined|message  any number
    SLICE        zero     list               any number|none number|none number|none
    LENGTH       zero     int                undefined|str|list|message
    NOT          zero     bool               any
    NEG          zero     int                number
    ADD          zero     int|str            ordered ordered
    SUB          zero     int                number number
    MUL          zero     int                number number
    DIV          zero     int                number number
    MOD          zero     int                number number
    CONCAT       zero     str                written written
    EQ           zero     bool               any any
    NE           zero     bool               any any
    LT           zero     bool               ordered ordered
    LE           zero     bool               ordered ordered
    GT           zero     bool               ordered ordered
    GE           zero     bool               ordered ordered
    IN           zero     bool               any undefined|str|message
    TEST         kinds    bool               any
    JUMP         label    nothing
    JUMP_FALSE   label    nothing            any
    AND          label    nothing            any
    OR           label    nothing            any
    FOR          label    nothing            undefined|list
    NEXT         label    nothing
    BREAK        label    nothing
    STRIP        sides    str                str str
    STARTS       zero     bool               str str
    ENDS         zero     bool               str str
    SPLIT        zero     undefined|int|str  str none|str number any
    REPLACE      zero     str                str str str
    CASE         letters  str                str
    JSON         zero     str                none|ordered
    STR          zero     str                written
    RAISE        zero     nothing            str
"""


class Instruction(NamedTuple):
    number: int
    operand: str
    puts: frozenset[Any]  # kinds; none: no value
    takes: tuple[Any, ...]  # kinds of each value


def _row(number: int, operand: str, *kinds: str) -> Instruction:
    puts, *takes = (
        frozenset().union(*(_SETS.get(name, {name}) for name in names.split("|")))
        for names in kinds
    )
    return Instruction(number, operand, puts, tuple(takes))


INSTRUCTIONS = {
    name: _row(number, *row)
    for number, (name, *row) in enumerate(map(str.split, _TABLE.strip().splitlines()))
}
JUMPS = {name for name, row in INSTRUCTIONS.items() if row.operand == "label"}


class Refused(PhasorError):
    """The template needs something that a chat program does not have: one line."""

    def __init__(self, what: str, line: int | None = None) -> None:
        text = what if line is None else f"chat template, line {line}: {what} is not supported"
        super().__init__(printable(text, 300))


class Excess(Refused):
    """The template is too much: for its size, or for what follows from it."""
