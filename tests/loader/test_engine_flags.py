"""The table of the engine's options, and what kvplan says of each."""

from __future__ import annotations

from kvplan_cli.engine_rules import NEWEST
from kvplan_cli.loader.engine_flags import Takes, engine_flags, engine_spellings, table_release
from kvplan_cli.loader.flag_names import IRRELEVANT_FLAGS, MEMORY_FLAGS, PLAN_FLAGS
from kvplan_cli.loader.flags import FLAGS, SPECULATIVE_SHORTHANDS, FlagKind

# Read before any flag is.
_OF_THE_COMMAND = {"model", "config"}


def test_the_table_is_of_the_newest_release() -> None:
    assert table_release() == NEWEST


def test_every_option_has_one_effect() -> None:
    modelled = {flag.dashed for flag in FLAGS} | set(SPECULATIVE_SHORTHANDS)
    classes = [modelled, set(PLAN_FLAGS), set(MEMORY_FLAGS), set(IRRELEVANT_FLAGS), _OF_THE_COMMAND]
    assert sum(map(len, classes)) == len(set().union(*classes))
    assert set().union(*classes) == set(engine_flags())


def test_modelled_flags_have_the_engines_short_forms_and_arity() -> None:
    for flag in FLAGS:
        option = engine_flags()[flag.dashed]
        assert option.short == flag.short
        assert (option.takes is Takes.SWITCH) == (flag.kind is FlagKind.BOOLEAN)
        assert (option.takes is Takes.SOME) == (flag.kind is FlagKind.TEXTS)


def test_harmless_values_hold_the_default() -> None:
    for name, harmless in PLAN_FLAGS.items():
        default = engine_flags()[name].default
        assert default is None or str(default) in harmless


def test_switches_have_their_off_spellings() -> None:
    table = engine_spellings()
    assert table["--disable-prefix-caching"][1]
    assert table["--no-enforce-eager"][1]
    assert table["--headless"] == (engine_flags()["headless"], False)
    assert "--no-headless" not in table
