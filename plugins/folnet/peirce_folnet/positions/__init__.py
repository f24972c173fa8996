"""The relation that FOLNet begins with."""
