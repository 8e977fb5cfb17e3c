"""Figures of a plan as formulas: names, values and a result that can be worked out again."""
