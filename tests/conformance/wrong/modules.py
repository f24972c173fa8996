"""Plug-in modules that change the process which imports them.

Each is the source of a module that registers one operator, and one line more.
"""

from __future__ import annotations

RIGHT = '''
import logging
import os
import random
import sys
import threading
import warnings

import numpy as np
import peirce
import torch
from peirce.parts import Operator, Reader, Writer

log = logging.getLogger(__name__)
DRAWN = np.random.default_rng(0).random()
GENERATOR = torch.Generator().manual_seed(0)


class Twice(Operator):
    """u(x) = K(x) v(x) + K(x) v(x)."""

    name = "twice"
    typing = "U <- U x U"
    scope_rule = "none"

    def kernel(self):
        return Reader(branch="U", shape={"h": self.dims.heads})

    def premise(self):
        return Reader(branch="U", shape={"h": self.dims.heads})

    def output(self):
        return Writer(branch="U", shape={"h": self.dims.heads})

    def infer(self, kernel, premise, scope):
        return 2 * kernel * premise

    def reference(self, kernel, premise, scope):
        return [[2 * k * v for k, v in zip(*rows)] for rows in zip(kernel, premise)]


@peirce.hookimpl
def register_operators():
    IN_THE_HOOK
    return [Twice]
'''

AT_IMPORT = {
    "seeds_torch": "torch.manual_seed(0)",
    "seeds_numpy": "np.random.seed(0)",
    "seeds_python": "random.seed(0)",
    "sets_the_dtype": "torch.set_default_dtype(torch.float64)",
    "sets_the_device": 'torch.set_default_device("meta")',
    "stops_gradients": "torch.set_grad_enabled(False)",
    "is_deterministic": "torch.use_deterministic_algorithms(True, warn_only=True)",
    "sets_threads": "torch.set_num_threads(torch.get_num_threads() + 1)",
    "sets_precision": 'torch.set_float32_matmul_precision("medium")',
    "silences_warnings": 'warnings.filterwarnings("ignore")',
    "starts_a_thread": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "sets_the_environment": 'os.environ["OMP_NUM_THREADS"] = "3"',
    "sets_up_logging": "logging.basicConfig(level=logging.DEBUG)",
    "loosens_a_logger": 'logging.getLogger("peirce").setLevel(logging.ERROR)',
    "extends_the_path": "sys.path.insert(0, os.getcwd())",
    "goes_elsewhere": 'os.chdir("/")',
    "catches_signals": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)",
    "changes_the_locale": "import locale\nlocale.setlocale(0, ('C', 'C.UTF-8')[locale.setlocale(0) == 'C'])",
    "raises_the_limit": "sys.setrecursionlimit(sys.getrecursionlimit() + 1)",
    "patches_torch": "torch.nn.functional.softmax = torch.nn.functional.log_softmax",
    "says_hello": 'print("twice 1.0")',
    "writes_a_file": 'open("twice.log", "w").close()',
    "raises_for_errors": 'np.seterr(all="raise")',
}
"""A line for the end of the right module, by what it does."""
IN_THE_HOOK = {"draws_in_the_hook": "torch.rand(())", "prints_in_the_hook": 'print("registered")'}
"""A line for the hook."""


def source(name: str) -> str:
    """The module of a name: one of those above, or a right one."""
    text = RIGHT.replace("IN_THE_HOOK", IN_THE_HOOK.get(name, "pass")).replace('"twice"', repr(name))
    return f"{text}\n\n{AT_IMPORT.get(name, '')}\n"
