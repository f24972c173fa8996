"""The syntaxes that queries are read in: the contract of one, and those that come with Peirce beside EFO's own."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from peirce_queries.languages.cypher import parse_cypher
from peirce_queries.languages.language import Query
from peirce_queries.languages.lisp import SetExpression, parse_lisp
from peirce_queries.languages.sparql import parse_sparql


class Syntax(ABC):
    """A syntax of queries. A plug-in registers one by `register_syntaxes`.

    Attributes:
        begins: what its texts begin with, and no text in EFO syntax or another one does.
    """

    begins: ClassVar[re.Pattern[str]]

    @staticmethod
    @abstractmethod
    def read(text: str) -> Query | SetExpression:
        """The query that a text says, as a formula or as operations on sets.

        Raises:
            QueryError: the text is not a query.
        """


class Lisp(Syntax):
    """The Lisp-like syntax: an operator and a comma after the first parenthesis."""

    begins = re.compile(r"\s*\(\s*[^\s(),&|!\"'\\]+\s*,")
    read = staticmethod(parse_lisp)


class Sparql(Syntax):
    """SPARQL's SELECT queries."""

    begins = re.compile(r"\s*(select(\s+[dr]|\s*[?$*])|(prefix|base)\s|(ask|construct)\s*\{)", re.IGNORECASE)
    read = staticmethod(parse_sparql)


class Cypher(Syntax):
    """openCypher's MATCH; the first node of a pattern has no comma, as an atom of EFO syntax has."""

    begins = re.compile(r"\s*(optional\s+)?match\s*\((?:[^(),{]|\{[^}]*\})*\)", re.IGNORECASE)
    read = staticmethod(parse_cypher)
