"""Statements of a chat template: what is written, set, chosen, and macros, which are written out
where they are called. A method s_NAME is jinja2's node NAME."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from phasor.chat import values as V
from phasor.chat.abstract import OTHER, STR, Function, Macro, Namespace, Val
from phasor.chat.assembler import Label
from phasor.chat.calls import Calls
from phasor.chat.syntax import assigned, nodes

_NAMES = {
    "AssignBlock": "a set block",
    "CallBlock": "a call block",
    "FilterBlock": "a filter block",
    "ExprStmt": "do",
}
_CAPTURED = {"EMIT": [("CONCAT", 0)], "EMIT_STRING": [("ADD", 0)]}


def _uses_caller(macro: Any) -> bool:
    return any(name.name in ("caller", "varargs", "kwargs") for name in macro.find_all(nodes.Name))


def _safe(node: Any) -> bool:
    """The filter safe counts for what is done with the text here, and nothing is."""
    bare = isinstance(node, nodes.Filter) and node.name == "safe"
    return bare and not (node.args or node.kwargs or node.dyn_args or node.dyn_kwargs)


class Statements(Calls):
    def run(self, body: Iterable[Any]) -> None:
        for node in body:
            if self.state is None:
                return
            self.line = node.lineno
            self.enter_level()
            self.spend(1)
            self.code.append(("LINE", node.lineno))
            name = type(node).__name__
            method = getattr(self, f"s_{name}", None)
            if method:
                method(node)
            else:
                self.unsupported(_NAMES.get(name, name.lower()))
            self.depth -= 1

    def unsupported(self, what: str) -> None:
        self.code += [self.refusal(what), ("POP", 0)]

    def capture(self, work: Callable[..., Any], *arguments: Any) -> list[Any]:
        before, self.code = self.code, []
        work(*arguments)
        done, self.code = self.code, before
        return done

    def captured(self, work: Callable[..., Any], *arguments: Any) -> Val:
        """What statements write, as a text."""
        before = dict(self.state)
        code = self.capture(work, *arguments)
        if self.state is None:  # it always ends the program
            self.state = before
        parts = [i for i in code if i[0] != "LINE"]
        if all(op == "TEXT" for op, _ in parts):
            return self.known("".join(text for _, text in parts))
        if parts[-1][0] == "EMIT" and not any(
            op in ("TEXT", "EMIT", "EMIT_STRING", "LABEL", "SET", "RAISE") for op, _ in parts[:-1]
        ):
            return Val((*code[:-1], ("STR", 0)), STR, pure=False)
        out: list[Any] = [("STRING", "")]
        for op, arg in code:
            if op == "TEXT":
                out += [("STRING", arg), ("CONCAT", 0)]
            else:
                out += _CAPTURED.get(op, [(op, arg)])
        return Val(tuple(out), STR, pure=False)

    # ---- What is written

    def s_Output(self, node):
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                self.spend(1 + (len(part.data) >> 6))
                self.code.append(("TEXT", part.data))
                continue
            self.code.append(("LINE", part.lineno))
            while _safe(part):
                part = part.node
            named = isinstance(part, nodes.Call) and isinstance(part.node, nodes.Name)
            macro = self.lookup(part.node.name).const if named else None
            if isinstance(macro, Macro):
                self.write_macro(macro, part)
                if self.state is None:
                    return
                continue
            value = self.eval(part)
            self.code += self.written(value, False)
            if value.code and value.code[-1] == ("RAISE", 0):
                self.state = None
                return

    def written(self, value: Val, strict: bool) -> list[Any]:
        """Code that puts a value into the output; strict: it must be a text."""
        strict = strict and value.types != STR
        if value.known and value.types != OTHER and not strict:
            text = V.text(value.const)
            self.spend(1 + (len(text) >> 6))
            text = [("TEXT", text)] if text else []
            return text if value.pure else [*value.code, ("POP", 0), *text]
        kind, *parts = value.shape or [None]
        if kind == "cat":
            return [i for part, s in parts[0] for i in self.written(part, s)]
        if kind == "cond":
            test, *both = parts
            return [*self.branches(test, *(self.written(part, strict) for part in both))]
        return [*value.code, ("EMIT_STRING" if strict else "EMIT", 0)]

    # ---- Variables and scopes

    def s_Assign(self, node):
        target, call = node.target, node.node
        if isinstance(target, nodes.NSRef):
            space = self.lookup(target.name).const
            if not isinstance(space, Namespace):
                what = f"{target.name}.{target.attr}: {target.name} is no namespace here"
                return self.unsupported(what)
            return self.store(("namespace", space.key, target.attr), self.eval(call))
        if not isinstance(target, nodes.Name):
            return self.unsupported("a set of several names")
        named = isinstance(call, nodes.Call) and isinstance(call.node, nodes.Name)
        if named and self.lookup(call.node.name).const == Function("namespace"):
            return self.make_namespace(target.name, call)
        self.store((self.scopes[-1], target.name), self.eval(call))

    def make_namespace(self, name: str, call: Any) -> None:
        if call.args or call.dyn_args or call.dyn_kwargs:
            return self.unsupported("namespace() with these arguments")
        given = {k.key: self.eval(k.value) for k in call.kwargs}
        space = Namespace(id(call))
        for attr in [*given, *sorted(self.names.get(name, set()) - set(given))]:
            self.store(("namespace", space.key, attr), given.get(attr, self.undefined(attr)))
        self.store((self.scopes[-1], name), self.known(space))

    def enter(self, scope: Any, names: Iterable[str]) -> None:
        """Names that are set inside begin with what they are outside."""
        self.spend(len(self.state))
        outer = {name: self.lookup(name) for name in sorted(names)}
        self.scopes.append(scope)
        for name, value in outer.items():
            self.store((scope, name), value)

    def leave(self, scope: Any) -> None:
        self.scopes.pop()
        if self.state is not None:
            self.state = {k: v for k, v in self.state.items() if k[0] != scope}

    def s_Scope(self, node, given=()):
        self.enter(id(node), self.fact(assigned, node))
        for target, value in given:
            self.store((id(node), target.name), value)
        self.run(node.body)
        self.leave(id(node))

    def s_With(self, node):
        if not all(isinstance(t, nodes.Name) for t in node.targets):
            return self.unsupported("with of several names")
        self.s_Scope(node, list(zip(node.targets, [self.eval(v) for v in node.values])))

    def s_AssignBlock(self, node):
        if not isinstance(node.target, nodes.Name) or node.filter is not None:
            return self.unsupported("a set block of this kind")
        if self.fact(assigned, node):
            return self.unsupported("a set block that sets others")
        self.store((self.scopes[-1], node.target.name), self.captured(self.run, node.body))

    # ---- What is chosen

    def s_If(self, node):
        end, after = Label(), None
        for branch in (node, *node.elif_):
            value = self.eval(branch.test)
            if value.truth is not None:
                self.discard(value)
            if value.truth:
                self.run(branch.body)
                break
            if value.truth is None:
                other = Label()
                self.code += [*value.code, ("JUMP_FALSE", other)]
                before = dict(self.state)
                self.run(branch.body)
                self.code += [("JUMP", end), ("LABEL", other)]
                after, self.state = self.join(after, self.state), before
        else:
            self.run(node.else_)
        self.code.append(("LABEL", end))
        self.state = self.join(after, self.state)

    # ---- Macros

    def s_Macro(self, node):
        self.store((self.scopes[-1], node.name), self.known(Macro(node, tuple(self.scopes))))

    def call_macro(self, macro: Macro, call: Any) -> Val:
        """A call among values: the macro's body is written out here, its output as one text."""
        spaces = {k: v for k, v in self.state.items() if k[0] == "namespace"}
        before = dict(self.state)
        value = self.captured(self.write_macro, macro, call)
        if not all(self.same(v, self.state.get(k, v)) for k, v in spaces.items()):
            self.state = before
            what = "a macro that sets a namespace's attribute, among other values,"
            return self.refuse(what)
        return value

    def write_macro(self, macro: Macro, call: Any) -> None:
        """The macro's statements with the call's arguments, in the scopes where it was defined."""
        node = macro.node
        names = [a.name for a in node.args]
        given, keywords = self.given(call)
        values = {**dict(zip(names, given)), **keywords}
        if (
            call.dyn_args
            or call.dyn_kwargs
            or len(given) > len(names)
            or set(values) - set(names)
            or len(values) < len(given) + len(call.kwargs)
        ):
            return self.unsupported(f"{node.name}() with these arguments")
        if node in self.running:
            return self.unsupported(f"the macro {node.name}, which calls itself")
        if self.fact(_uses_caller, node):
            return self.unsupported(f"caller, varargs and kwargs in the macro {node.name}")
        scopes, self.scopes, loops, self.loops = self.scopes, list(macro.scopes), self.loops, []
        self.running.append(node)
        scope = ("macro", id(call))
        self.enter(scope, self.fact(assigned, node) - set(names))
        defaults = dict(zip(reversed(names), reversed(node.defaults)))
        for name in names:
            value = values.get(name)
            if value is None:
                value = self.eval(defaults[name]) if name in defaults else self.undefined(name)
            self.store((scope, name), value)
        self.run(node.body)
        self.leave(scope)
        self.running.pop()
        self.scopes, self.loops = scopes, loops
