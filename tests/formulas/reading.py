"""Arithmetic as it is printed, read back and worked out anew, without kvplan's own tree."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

_FUNCTIONS: dict[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
}
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_RELATIONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">": operator.gt}


def calculated(text: str) -> float:
    """``ceil(131,072 / 16) x 2`` worked out. Thousands stand apart without a blank."""
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text).replace(" x ", " * ")
    return _value(ast.parse(plain, mode="eval").body)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=sign, right=right):
            return _SIGNS[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*map(_value, arguments))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")


def check_equation(text: str) -> float:
    """The result of ``a x b = c <= d``, which must hold from the left to the right."""
    relation = next((sign for sign in _RELATIONS if f" {sign} " in text), None)
    equation, _, bound = text.partition(f" {relation} ") if relation else (text, "", "")
    left, equals, right = equation.rpartition(" = ")
    result = calculated(right)
    if equals:
        assert calculated(left) == result, text
    if relation:
        assert _RELATIONS[relation](result, calculated(bound)), text
    return result
