"""One module a group of families: rows that say what their layers hold."""
