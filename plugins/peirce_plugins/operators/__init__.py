"""The seven neural logic operators of FOLNet (Chen, 2023, Table 2), one file each."""

import peirce

from peirce_plugins.operators.assoc import Assoc
from peirce_plugins.operators.bool import Bool
from peirce_plugins.operators.cjoin import CJoin
from peirce_plugins.operators.join import Join
from peirce_plugins.operators.mu import Mu
from peirce_plugins.operators.prod import Prod
from peirce_plugins.operators.trans import Trans

__all__ = ["Assoc", "Bool", "CJoin", "Join", "Mu", "Prod", "Trans", "register_operators"]


@peirce.hookimpl
def register_operators() -> list[type]:
    """The operators in the order of Table 2."""
    return [Bool, CJoin, Join, Mu, Assoc, Prod, Trans]
