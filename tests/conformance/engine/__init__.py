"""Puts cases to an installed vLLM that believes it has a card.

Run by an interpreter that has the engine, never by kvplan's (``make_vectors.py`` starts it);
nothing here imports kvplan, and nothing of kvplan imports this. The engine's code runs
unmodified: what is posed is the machine around it (``machine.py`` lists it), and what is given
is the memory left for the cache, for no kernel ever runs.
"""
