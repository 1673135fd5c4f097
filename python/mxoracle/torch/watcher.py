"""Sees every product of a running model."""
from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves, tree_map_only

from mxoracle.torch import machines
from mxoracle.torch.calls import WHOLE, Calls
from mxoracle.torch.gradients import TORCHS, backward_watched, home_of, is_of_torch
from mxoracle.torch.graphs import compiled_code_watched, unwatched
from mxoracle.torch.modules import Modules
from mxoracle.torch.operands import copied, named, overwritten, written_by
from mxoracle.torch.products import Judged, Product
from mxoracle.torch.rules import COMPOSED, PRODUCTS, RULES, covers, type_of_result

# Nothing is computed by these, or nothing but what was there before.
_MOVES = (
    "detach", "detach_", "alias", "empty", "empty_like", "empty_strided", "new_empty", "clone", "_to_copy",
    "copy_", "zeros", "ones", "zeros_like", "ones_like", "fill_", "zero_", "to", "contiguous",
    "reshape",
)  # fmt: skip
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


def _devices(args: Any) -> set[str]:
    kinds = {leaf.device.type for leaf in tree_leaves(args) if isinstance(leaf, Tensor)}
    return kinds & {"cpu", "cuda"}


def _unread(args: Any) -> str:
    """Why the tensors of a call have no values to look at; empty: they have."""
    for leaf in tree_leaves(args):
        if isinstance(leaf, Tensor) and (leaf.is_meta or leaf.is_nested):
            return f"of {'meta' if leaf.is_meta else 'nested'} tensors"
    return ""


def _several_matrices(args: Any) -> bool:
    """True if the arguments hold two tensors that may be factors of one product."""
    found = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor) and leaf.dim() > 1]
    return len(found) > 1


def _has_kernel(func: Any, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)


def _composite(func: Any, devices: set[str]) -> bool:
    """True if torch computes `func` by calling other operators.  Autograd shows those; under
    inference_mode it does not run, and the whole operator comes by."""
    own = any(_has_kernel(func, device.upper()) for device in devices)
    return _has_kernel(func, _COMPOSITE.name) and not own


@contextlib.contextmanager
def _autocast_tracked(enabled: dict[str, bool]) -> Iterator[None]:
    """Keeps in `enabled` where autocast is on: within __torch_dispatch__ torch has it off."""
    theirs = torch.set_autocast_enabled

    def tracked(*args: Any) -> None:
        theirs(*args)
        device = args[0] if isinstance(args[0], str) else "cuda"
        enabled[device] = args[-1]

    enabled.update({device: torch.is_autocast_enabled(device) for device in ("cpu", "cuda")})
    torch.set_autocast_enabled = tracked
    try:
        yield
    finally:
        torch.set_autocast_enabled = theirs


@contextlib.contextmanager
def _modes_watched(entered: Callable[[type], None]) -> Iterator[None]:
    """Tells of each kind of mode, but torch's and ours, that comes before a watcher: one that is entered,
    and any that catches functions."""
    known = {type(mode) for mode in _get_current_dispatch_mode_stack()}
    homes = (torch.overrides, torch.utils._python_dispatch)
    theirs = [home._push_mode for home in homes]

    def look(mode: Any) -> None:
        if type(mode) not in known and not is_of_torch(home_of(type(mode))):
            entered(type(mode))
        known.add(type(mode))

    def watched(push: Callable) -> Callable:
        def pushed(mode: Any) -> Any:
            look(mode)
            return push(mode)

        return pushed

    for mode in torch.overrides._get_current_function_mode_stack():
        look(mode)
    for home, push in zip(homes, theirs):
        home._push_mode = watched(push)
    try:
        yield
    finally:
        for home, push in zip(homes, theirs):
            home._push_mode = push


class _Entered(threading.local):
    """The watchers of a thread, in the order in which they were entered."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []


_entered = _Entered()


class Watcher(TorchDispatchMode):
    """Sees every product that runs inside of it, and the module that calls it."""

    supports_higher_order_operators = True

    def __init__(self, every: int, no_products: Iterable[str] = ()) -> None:
        super().__init__()
        self.every = every
        self._calls: Counter[tuple[str, str]] = Counter()
        self._modules = Modules(self._elsewhere)
        self._whole = Calls(self._chosen, self._seen, self._missed, self._wrong)
        self._products = 0  # that came by
        self._autocast: dict[str, bool] = {}
        self._no_products = frozenset(no_products)
        self._kernels = 0  # that are judged as a whole, and run
        self._handed: Any = None  # an operator on its way to a subclass of Tensor

    def __enter__(self):
        _entered.watchers.append(self)
        with contextlib.ExitStack() as stack:
            stack.enter_context(compiled_code_watched(self._counted, self._missing, PRODUCTS))
            stack.enter_context(_autocast_tracked(self._autocast))
            stack.enter_context(_modes_watched(self._mode_entered))
            stack.enter_context(backward_watched(self._backward_begins))
            stack.enter_context(self._whole.layers_left())  # before their module is
            stack.enter_context(self._modules)
            stack.enter_context(self._whole.layers_entered())
            stack.enter_context(self._whole.functions())
            self._around = stack.pop_all()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        own = _entered.watchers
        since = own[::-1].index(self)
        for inner in own[len(own) - since :]:  # torch ends the watch of one of these in place of ours
            inner._missed("a judge", ("", 0), "the one around it ended before it: what runs from there on is not seen")
        del own[~since]
        super().__exit__(*error)
        self._around.__exit__(*error)

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Torch calls __torch_dispatch__ without the watcher; inside of this it is there again."""
        TorchDispatchMode.__enter__(self)
        try:
            yield
        finally:
            TorchDispatchMode.__exit__(self, None, None, None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names = {kind.__name__ for kind in types}
        kwargs = kwargs or {}
        if names & {"FakeTensor", "FunctionalTensor"}:
            return func(*args, **kwargs)  # shapes only: nothing is computed
        if not isinstance(func, torch._ops.OpOverload):
            self._missing(func.name(), "its products are not seen")  # such as flex_attention
            return func(*args, **kwargs)
        if names:
            return self._through_subclass(func, " and ".join(sorted(names)), args, kwargs)
        rule = RULES.get(func)
        devices = _devices((args, kwargs))
        unread = _unread((args, kwargs))
        if rule is None and not unread:
            if _composite(func, devices):
                with self._watching(), self._autocast_within(func, devices):
                    return func._op_dk(_COMPOSITE, *args, **kwargs)
            rule = WHOLE.get(func)
        if rule is not None and not unread:
            return self._product(func, rule, args, kwargs)
        out = func(*args, **kwargs)
        if func.overloadpacket.__name__ in PRODUCTS | COMPOSED or (unread and covers(func)):
            self._missing(str(func.name()), unread or "no rule for a product as part of it")
        elif self._foreign(func) and _several_matrices((args, kwargs)):
            self._missing(str(func.name()), "no operator of torch's: what it multiplies is not seen")
        elif not func.is_view and func.overloadpacket.__name__ not in _MOVES:
            self._counted(str(func.name()))
        return out

    def _foreign(self, func: Any) -> bool:
        """True of an operator of somebody's own, which may be a product as a whole."""
        return not (func.namespace in TORCHS or func.is_view or self._kernels
                    or func.name().partition(".")[0] in self._no_products)  # fmt: skip

    @contextlib.contextmanager
    def _autocast_within(self, func: Any, devices: set[str]) -> Iterator[None]:
        """Autocast casts the arguments of the operators that it lists, and is off within those; it
        is on within others."""
        outside = dict(self._autocast)
        for device in outside:
            self._autocast[device] &= not _has_kernel(func, f"Autocast{device.upper()}")
        cast = [device for device in devices if self._autocast[device]]
        try:
            with contextlib.ExitStack() as stack:
                for device in cast:
                    stack.enter_context(torch.autocast(device, torch.get_autocast_dtype(device)))
                yield
        finally:
            self._autocast.update(outside)

    def _through_subclass(self, func: Any, kinds: str, args: tuple, kwargs: dict) -> Any:
        """A subclass of Tensor, such as DTensor, makes other calls of one; those come by."""
        if self._handed is func:
            self._handed = None
            return NotImplemented
        before = self._products
        with self._watching():
            self._handed = func
            try:
                out = func(*args, **kwargs)
            finally:
                self._handed = None
        if func.overloadpacket.__name__ in PRODUCTS and self._products == before:
            self._missing(str(func.name()), f"{kinds} computes it unseen")
        return out

    def _chosen(self, operator: str) -> tuple[str, int] | None:
        return None if self._modules.is_elsewhere() else self._place(operator)

    def _place(self, operator: str) -> tuple[str, int] | None:
        """The module and the number of this call; None if this one is not to be looked at."""
        self._products += 1
        module = self._modules.current()
        call = self._calls[operator, module]
        self._calls[operator, module] += 1
        return (module, call) if call % self.every == 0 else None

    def _product(self, func: Any, rule: Callable, args: tuple, kwargs: dict) -> Any:
        """Calls `func`, and looks at the result and at what the operands were: it may write over them."""
        operator = str(func.name())
        place = self._place(operator)
        if place is None:
            return func(*args, **kwargs)
        with unwatched():  # a judge around this one sees nothing of it
            held = tree_map_only(Tensor, copied, (args, kwargs))
        out = func(*args, **kwargs)
        with unwatched():
            now = named(func, args, kwargs)
            for name in overwritten(named(func, *held), now, written_by(func, now)):
                self._wrong(operator, place, f"wrote over its operand {name}")
            device = machines.device_of(tree_leaves((args, kwargs)))
            self._look(operator, place, device, out, rule, *held, type_of_result(func, args, kwargs))
        return out

    def _look(self, operator: str, place: tuple[str, int], device: torch.device, out: Any, rule: Callable,
              args: tuple, kwargs: dict, needs: torch.dtype | None) -> None:  # fmt: skip
        try:
            found = rule(tree_map_only(Tensor, lambda tensor: tensor.detach().cpu(), out), *args, **kwargs)
        except (IndexError, RuntimeError) as error:  # of a result whose shape does not fit
            self._missed(operator, place, f"the result does not fit the operands: {str(error).splitlines()[0]}")
            return
        first = next(leaf.dtype for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        if isinstance(found, list):
            found = {product.output: product for product in found}
        for name, product in found.items() if isinstance(found, dict) else [("", found)]:
            named = f"{operator} {name}".rstrip()
            gave = first if product is None else product.actual.dtype
            if needs not in (None, gave):
                self._of_another_type(named, place, needs, gave, product)
                continue
            if isinstance(product, Product):
                product = replace(product, device=device)
            self._whole.note(product)
            self._seen(named, place, product)

    def _of_another_type(self, operator: str, place: tuple[str, int], needs: torch.dtype, gave: torch.dtype,
                         product: Judged | None) -> None:  # fmt: skip
        self._wrong(operator, place, f"gave {gave}, needs {needs}")

    def _missing(self, operator: str, why: str) -> None:
        place = self._place(operator)
        if place is not None:
            self._missed(operator, place, why)

    def _mode_entered(self, kind: type) -> None:
        self._missed("a mode", ("", 0), f"{kind.__module__}.{kind.__qualname__} comes before the judge: "
                     "what it computes in place of torch is not seen")  # fmt: skip

    def _elsewhere(self, module: str) -> None:
        self._missed("a module", (module, 0), "ran in another thread, whose products are not seen")

    def _backward_begins(self, own: list[str]) -> None:
        self._of_own_gradients(own)
        if self._modules.is_elsewhere():
            self._missed("a backward pass", ("", 0), "ran in another thread, whose products are not seen")

    def _counted(self, what: str) -> None:
        """An operator that computes and is no product that we know, or code run otherwise."""

    def _of_own_gradients(self, names: list[str]) -> None:
        """A backward pass goes through these, which are neither torch's nor ours."""

    def _missed(self, operator: str, place: tuple[str, int], why: str) -> None:
        """Products ran, or may have run, that did not come by."""

    def _wrong(self, operator: str, place: tuple[str, int], why: str) -> None:
        """What came of a product is no result of one."""

    def _seen(self, operator: str, place: tuple[str, int], product: Judged | None) -> None:
        """One product on the host; None where the rule does not know its arguments."""
        raise NotImplementedError
