"""The query language: existential first-order formulas with one free variable, parsed, printed and normalised.

A query such as `(r1(s1,e1))&(!(r2(s2,e1)))&(r3(e1,f))` asks for the entities f for which some e1 makes the formula
true. Every existential variable is quantified outermost, over the whole formula (TEGA, section 2.2, eq. 2). In place of
f there may be two free variables, f1 and f2, which ask for pairs (EFOk, Yin et al., 2023).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from typing import Any, TypeAlias

from attrs import frozen
from lark import Token, Transformer, v_args

from peirce_queries.languages.parsing import (
    PAIR,
    VARIABLE,
    QueryError,
    check_length,
    error_at,
    name_of,
    name_text,
    quote,
    read,
)

MAX_CONJUNCTIONS = 1024
"""Conjunctions that a disjunctive normal form may have."""

_PLACEHOLDER = re.compile(r"[rs][1-9][0-9]*")


@frozen
class Variable:
    """A variable: `f` is free, or `f1` and `f2` are; `e1`, `e2`, ... are existential."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Constant:
    """An entity by name or id, or a placeholder such as `s1` in an abstract query."""

    name: str

    def __str__(self) -> str:
        variable = VARIABLE.fullmatch(self.name) or self.name in PAIR
        return quote(self.name) if variable else name_text(self.name)


Term: TypeAlias = Variable | Constant


@frozen
class Atom:
    """`relation(head, tail)`."""

    relation: str
    head: Term
    tail: Term

    def __str__(self) -> str:
        return f"{name_text(self.relation)}({self.head},{self.tail})"

    @property
    def terms(self) -> tuple[Term, Term]:
        """Head and tail."""
        return self.head, self.tail


@frozen
class Not:
    """The negation of a formula."""

    operand: Formula

    def __str__(self) -> str:
        return f"!({self.operand})"


@frozen
class And:
    """A conjunction of two or more formulas."""

    operands: tuple[Formula, ...]

    def __str__(self) -> str:
        return "&".join(f"({operand})" for operand in self.operands)


@frozen
class Or:
    """A disjunction of two or more formulas."""

    operands: tuple[Formula, ...]

    def __str__(self) -> str:
        return "|".join(f"({operand})" for operand in self.operands)


Formula: TypeAlias = Atom | Not | And | Or


@frozen
class Literal:
    """An atom or its negation."""

    atom: Atom
    positive: bool = True


Conjunction: TypeAlias = tuple[Literal, ...]


FREE = Variable("f")
"""The free variable, whose values are the answers."""
FIRST, SECOND = map(Variable, PAIR)
"""The free variables of a query that asks for pairs."""


@frozen
class Query:
    """A formula with the free variable f, or with f1 and f2; `str(query)` parses to the same query."""

    formula: Formula

    def __str__(self) -> str:
        return str(self.formula)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms in order of appearance, repetitions included."""
        return tuple(_atoms(self.formula))

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations in order of first appearance."""
        return tuple(dict.fromkeys(atom.relation for atom in self.atoms))

    @property
    def constants(self) -> tuple[str, ...]:
        """The entities in order of first appearance."""
        return tuple(term.name for term in self._terms if isinstance(term, Constant))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in order of first appearance."""
        return tuple(term for term in self._terms if isinstance(term, Variable))

    @property
    def pairs(self) -> bool:
        """Whether it has two free variables, f1 and f2, and asks for pairs."""
        return SECOND in self.variables

    @property
    def _terms(self) -> Iterator[Term]:
        return iter(dict.fromkeys(term for atom in self.atoms for term in atom.terms))

    @property
    def abstract(self) -> bool:
        """Whether every relation and entity is a placeholder, r1, r2, ... or s1, s2, ..."""
        return all(
            _PLACEHOLDER.fullmatch(name) and name[0] == kind
            for kind, names in (("r", self.relations), ("s", self.constants))
            for name in names
        )

    def ground(self, grounding: Mapping[str, str]) -> Query:
        """Replace placeholders by names.

        Raises:
            QueryError: a placeholder of the query is missing from `grounding`, or the other way round.
        """
        names = {*self.relations, *self.constants}
        problems = {"missing": names - set(grounding), "not in it": set(grounding) - names}
        if message := "; ".join(
            f"{what} {', '.join(sorted(some))}" for what, some in problems.items() if some
        ):
            raise QueryError(f"the grounding does not fit {self}: {message}")

        def ground_atom(atom: Atom) -> Atom:
            head, tail = (Constant(grounding[t.name]) if isinstance(t, Constant) else t for t in atom.terms)
            return Atom(grounding[atom.relation], head, tail)

        return Query(with_atoms(self.formula, ground_atom))

    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The disjunctive normal form (eq. 2 of TEGA): negations at the atoms, each conjunction without repetitions.

        Raises:
            QueryError: there would be more than `MAX_CONJUNCTIONS`.
        """
        found = _normal(self.formula, True)
        return tuple(dict.fromkeys(tuple(dict.fromkeys(conjunction)) for conjunction in found))


def parse(text: str, *, pairs: bool = False) -> Query:
    """Read a query in EFO syntax.

    `&`, `|`, `!` and parentheses combine atoms `relation(head,tail)`. `f` is the free variable and `e1`, `e2`, ... are
    existential ones; any other name is an entity. A name with spaces or punctuation, and an entity that is called like
    a variable, stands in quotes. Where f does not occur, f1 and f2 are free, and f1 by itself is f.

    Args:
        text: the query.
        pairs: whether it may have two free variables.

    Raises:
        QueryError: the text is not a query; the message shows the column.
    """
    query = Query(read(text, "grammar.lark", _Build, operands))
    used = {*query.variables} & {FREE, FIRST, SECOND}
    if used == {FIRST, SECOND}:
        return checked_pairs(query, pairs=pairs)
    if FREE in used:
        return Query(replace_terms(query.formula, {v: Constant(v.name) for v in (FIRST, SECOND)}))
    if used == {FIRST}:
        return Query(replace_terms(query.formula, {FIRST: FREE}))
    raise error_at(text, 0, "the free variable f, which stands for the answer, does not occur")


def checked_pairs(query: Query, *, pairs: bool) -> Query:
    """The query; a `QueryError` where it asks for pairs and may not."""
    if query.pairs and not pairs:
        raise QueryError(
            f"{query} asks for pairs, which only `peirce kg answer` and `peirce ask` without --zero-shot take; "
            "ask for f alone"
        )
    return query


def operands(formula: Formula) -> tuple[Formula, ...]:
    """What a formula's connective joins or negates; nothing of an atom."""
    if isinstance(formula, Atom):
        return ()
    return (formula.operand,) if isinstance(formula, Not) else formula.operands


def with_atoms(formula: Formula, change: Callable[[Atom], Atom]) -> Formula:
    """The formula with each atom changed."""
    if isinstance(formula, Atom):
        return change(formula)
    changed = tuple(with_atoms(operand, change) for operand in operands(formula))
    return Not(*changed) if isinstance(formula, Not) else type(formula)(changed)


def flat_operands(formula: Formula, connective: type[And | Or]) -> Iterator[Formula]:
    """The operands of one connective, through parentheses that only group it; the formula itself if it is another."""
    if isinstance(formula, connective):
        for operand in formula.operands:
            yield from flat_operands(operand, connective)
    else:
        yield formula


def disjunctive(query: Query) -> Query:
    """The query in disjunctive normal form: an `|` of `&` of atoms and negated atoms (TEGA, eq. 2).

    Raises:
        QueryError: it would have more than `MAX_CONJUNCTIONS` conjunctions or `MAX_LENGTH` characters.
    """
    literals = [
        [x.atom if x.positive else Not(x.atom) for x in literals] for literals in query.conjunctions()
    ]
    normal = Query(_combine(Or, [_combine(And, operands) for operands in literals]))
    check_length(str(normal))
    return normal


def canonical(query: Query) -> Query:
    """The query with its existential variables called e1, e2, ... in the order of their first appearance."""
    existential = [variable for variable in query.variables if variable not in (FREE, FIRST, SECOND)]
    return Query(
        replace_terms(query.formula, {old: Variable(f"e{i}") for i, old in enumerate(existential, 1)})
    )


def replace_terms(formula: Formula, terms: Mapping[Any, Term]) -> Formula:
    """The formula with other terms in place of some."""
    return with_atoms(
        formula, lambda atom: Atom(atom.relation, *(terms.get(term, term) for term in atom.terms))
    )


def alpha_equivalent(left: Query, right: Query) -> bool:
    """Whether the queries differ by no more than the names of their existential variables.

    All are quantified over the whole formula, so that is a one-to-one renaming; the order of operands counts.
    """
    return canonical(left) == canonical(right)


def reverse(query: Query) -> Query:
    """The query written from its end to its beginning; it means the same (TEGA, Appendix C and Table 13).

    Parentheses stay where they are: `((a)&(b))&(c)` becomes `((c)&(b))&(a)`, as in Table 13, and a second reversal
    gives the query back.
    """
    return Query(_reverse(query.formula))


@v_args(inline=True)
class _Build(Transformer[Token, Formula]):
    """Turns the parse into formulas."""

    negation = Not

    def disjunction(self, *operands: Formula) -> Formula:
        return Or(operands)

    def conjunction(self, *operands: Formula) -> Formula:
        return And(operands)

    def atom(self, relation: Token, head: Token, tail: Token) -> Formula:
        return Atom(name_of(relation), _term(head), _term(tail))


def _term(token: Token) -> Term:
    if token.type == "NAME" and (VARIABLE.fullmatch(token) or token in PAIR):
        return Variable(str(token))
    return Constant(name_of(token))


def _atoms(formula: Formula) -> Iterator[Atom]:
    if isinstance(formula, Atom):
        yield formula
    for operand in operands(formula):
        yield from _atoms(operand)


def _normal(formula: Formula, positive: bool) -> list[Conjunction]:
    if isinstance(formula, Atom):
        return [(Literal(formula, positive),)]
    if isinstance(formula, Not):
        return _normal(formula.operand, not positive)
    parts = [_normal(operand, positive) for operand in formula.operands]
    joins = isinstance(formula, Or) == positive
    count = sum(map(len, parts)) if joins else prod(map(len, parts))
    if count > MAX_CONJUNCTIONS:
        raise QueryError(
            f"the query's disjunctive normal form has more than {MAX_CONJUNCTIONS} conjunctions; split the query"
        )
    return list(chain(*parts)) if joins else [sum(choice, ()) for choice in product(*parts)]


def _reverse(formula: Formula) -> Formula:
    if isinstance(formula, Atom):
        return formula
    if isinstance(formula, Not):
        return Not(_reverse(formula.operand))
    chain = [_reverse(operand) for operand in flat_operands(formula, type(formula))]
    return _refill(formula, type(formula), reversed(chain))


def _refill(formula: Formula, connective: type[And | Or], operands: Iterator[Formula]) -> Formula:
    """The chain in the same groups, with other operands."""
    if isinstance(formula, connective):
        return connective(tuple(_refill(operand, connective, operands) for operand in formula.operands))
    return next(operands)


def _combine(connective: type[And | Or], operands: Sequence[Formula]) -> Formula:
    return operands[0] if len(operands) == 1 else connective(tuple(operands))
