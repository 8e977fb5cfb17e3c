"""Completion in shells, by click's protocol: ``_KVPLAN_COMPLETE=bash_source kvplan``.

``SHELL_source`` prints what a shell evaluates once; ``SHELL_complete`` the words that fit, one a
line, for ``COMP_WORDS`` and ``COMP_CWORD``. bash and zsh give the words a line each and the index
of the last, fish the whole line and the last word. Where nothing fits, the shell completes files.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kvplan_cli.cli.streams import write
from kvplan_cli.errors import InputError, Problem

VARIABLE: Final = "_KVPLAN_COMPLETE"
_SOURCES: Final = {
    "bash": """_kvplan_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        _KVPLAN_COMPLETE=bash_complete "$1"))
}
complete -o default -F _kvplan_completion kvplan
""",
    "zsh": """#compdef kvplan
_kvplan_completion() {
    local -a found
    found=("${(@f)$(env COMP_WORDS="${(pj:\\n:)words}" COMP_CWORD=$((CURRENT-1)) \\
        _KVPLAN_COMPLETE=zsh_complete kvplan)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _kvplan_completion kvplan
""",
    "fish": """function _kvplan_completion
    env COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \\
        _KVPLAN_COMPLETE=fish_complete kvplan
end
complete --command kvplan --arguments "(_kvplan_completion)"
""",
}


def run(asked: str, env: Mapping[str, str]) -> int:
    """Answer a shell. asked: ``bash_source`` and kin. Raises: InputError for another word."""
    shell, _, what = asked.partition("_")
    if shell not in _SOURCES or what not in ("source", "complete"):
        legal = ", ".join(f"{name}_source" for name in _SOURCES)
        raise InputError(Problem(where=VARIABLE, reason="is no shell's", way_out=f"one of {legal}"))
    if what == "source":
        write(_SOURCES[shell])
        return 0
    before, begun = _words(shell, env)
    write("".join(f"{word}\n" for word in completions(before, begun)))
    return 0


def completions(before: Sequence[str], begun: str) -> list[str]:
    """What a word that is begun may become. before: those before it, without ``kvplan``."""
    from kvplan_cli.cli.completed import COMMANDS, options_of

    if not before:
        return _fitting(COMMANDS, begun)
    if before[0] not in COMMANDS or "--" in before:
        return []
    options = options_of(before[0])
    # bash parts words at the sign of equality.
    last = [word for word in before[1:] if word != "="][-1:]
    taking = {spelling: o for o in options if o.metavar for spelling in o.spellings}
    if last and last[0] in taking:
        from kvplan_cli.cli.completed import values_of

        return _fitting(values_of(taking[last[0]].name, before[0]), begun.removeprefix("="))
    if begun.startswith("-"):
        spelled = [word for o in options for word in (*o.spellings, o.negation) if word]
        return _fitting([*spelled, "--"], begun)
    from kvplan_cli.cli.completed import words_of

    return _fitting(words_of(before[0]), begun)


def _fitting(words: Iterable[str], begun: str) -> list[str]:
    return [word for word in words if word.startswith(begun)]


def _words(shell: str, env: Mapping[str, str]) -> tuple[list[str], str]:
    """The words before the one that is begun, and that."""
    text, index = env.get("COMP_WORDS", ""), env.get("COMP_CWORD", "")
    if shell == "fish":
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        before = words[1:-1] if index and words[-1:] == [index] else words[1:]
        return before, index
    words = text.split("\n")
    at = int(index) if index.isdecimal() and len(index) < 6 else len(words)
    return words[1:at], words[at] if at < len(words) else ""
