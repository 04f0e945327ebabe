"""What encoders give: vectors, classes, tokens for masks, and ranks."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, NamedTuple, Sequence, TypeVar, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.library import Error, check, pointer, text_bytes, texts_list
from phasor.runtime.opened import Opened, Texts
from phasor.runtime.results import Filled, Label, Ranked
from phasor.runtime.scores import added, best, class_scores, softmax
from phasor.runtime.session import Session
from phasor.runtime.threads import Stop, interruptible, side_by_side

R = TypeVar("R")
_BATCH, _BATCH_TOKENS = 32, 256  # texts that are encoded together, tokens that share a product
ROWS = 16  # tokens that are labeled at once
_MOST_LABELS = 1024
_PLACES = ("{query}", "{document}")  # of a template for two texts


class Given(NamedTuple):
    """One text of a batch."""

    ids: np.ndarray
    segments: np.ndarray | None = None
    seen: int = 0


class Encoders(Opened):
    """What a model does with encoded texts."""

    # ---- batches

    def _answers(
        self,
        given: Sequence[Given],
        rows: int,
        answer: Callable[[Session, int, int], R],
    ) -> list[R]:
        """answer(session, sequence, number) of each text, encoded in batches. rows: of logits that
        it asks for at once."""
        weights = self._weights
        limits = weights.limits()
        for number, one in enumerate(given):
            if not 0 < one.ids.size <= limits.source:
                why = f"text {number} has {one.ids.size} tokens: expected 1 to {limits.source}"
                status = c.Status.FULL if one.ids.size else c.Status.BAD_INPUT
                raise Error(f"{weights.path}: {why}", status)
        decodes = weights.target is not None
        batch = 1 if decodes else _BATCH
        limits.sequences = min(batch, max(len(given), 1))
        limits.chunk, limits.logit_rows = min(limits.sequences * limits.source, _BATCH_TOKENS), rows
        if decodes:
            limits.target = min(limits.source, weights.target.max_positions or limits.source)

        def work(stop: Stop) -> list[list[R]]:
            def some(first: int) -> list[R]:
                session, part = self._kept("encode", limits), given[first : first + batch]

                def call() -> list[R]:
                    items = (c.Item * len(part))()
                    for sequence, one in enumerate(part):
                        items[sequence] = session.item(one.ids, sequence)
                        items[sequence].seen = one.seen
                        if one.segments is not None:
                            items[sequence].segments = pointer(one.segments)
                    session.run("phasor_encode", items, len(part))
                    return [answer(session, i, first + i) for i in range(len(part))]

                answers = session.use(call, stop)
                self._keep("encode", session)
                return answers

            return side_by_side(some, range(0, len(given), batch), self._threads)

        return [one for part in interruptible(work) for one in part]

    def _rows(self, session: Session, sequence: int, first: int, count: int) -> np.ndarray:
        """(count, width) rows of logits from position `first` on."""
        parts = []
        for begin in range(first, first + count, ROWS):
            rows = min(ROWS, first + count - begin)
            session.run("phasor_encoder_output", sequence, begin, rows)
            parts.append(session.rows(rows).copy())
        return self._finite(np.concatenate(parts))

    def _row(self, session: Session, sequence: int, place: int) -> np.ndarray:
        row: np.ndarray = self._rows(session, sequence, place, 1)[0]
        return row

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            raise Error(f"{self._weights.path}: a value is not a number", c.Status.NOT_FINITE)
        return values

    def _refused(self, why: str) -> Error:
        return Error(f"{self._weights.path}: {why}", c.Status.UNSUPPORTED)

    # ---- prompts and pairs

    def _prompts(self) -> list[tuple[str, str]]:
        weights, found = self._weights, []
        for index in range(weights.output.prompts):
            parts: list[Any] = [kind() for kind in (ctypes.c_void_p, ctypes.c_size_t) * 2]
            status = weights.library.phasor_prompt(weights.model, index, *map(ctypes.byref, parts))
            check(status, None, weights.path)
            use, text = (
                ctypes.string_at(at.value, size.value).decode() if size.value else ""
                for at, size in (parts[:2], parts[2:])
            )
            found.append((use, text))
        return found

    def _prompt(self, name: str | None) -> str:
        prompts = self._prompts()
        if name is None:
            return prompts[0][1] if prompts else ""
        for use, text in prompts:
            if use == name:
                return text
        known = ", ".join(use for use, _ in prompts) or "no prompts"
        raise Error(f"prompt_name={name!r}: the file has {known}")

    def _pair_template(self) -> tuple[str, str, str] | None:
        """Before, between and behind two texts that are read in the file's prompt for pairs."""
        for name, whole in self._prompts():
            before, query, rest = whole.partition(_PLACES[0])
            between, document, behind = rest.partition(_PLACES[1])
            if name == "pair" and query and document:
                return before, between, behind
        return None

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Given]:
        """The tokens of two texts that are read together."""
        side = self._side(None, c.SOURCE)
        template = self._pair_template()
        if template is not None:
            before, between, behind = template
            texts = [before + first + between + second + behind for first, second in pairs]
            return self._trimmed([Given(ids) for ids in self._all_ids(texts, side)])
        library, given = self._weights.library, []
        both = [(text_bytes(first), text_bytes(second)) for first, second in pairs]
        session = self._text_session(max((len(part) for pair in both for part in pair), default=0))

        def call() -> None:
            count = ctypes.c_size_t()
            for first, second in both:
                most = len(first) + len(second) + 64
                while True:
                    ids, segments = np.empty(most, np.uint32), np.empty(most, np.uint32)
                    out = (pointer(ids), pointer(segments), most, ctypes.byref(count))
                    texts = (first, len(first), second, len(second))
                    error = session.error
                    status = library.phasor_pair_to_ids(
                        session.handle, side, *out, *texts, ctypes.byref(error)
                    )
                    if status != c.Status.FULL or count.value <= most:
                        break
                    most = count.value
                check(status, error, self._weights.path)
                encoder = self._weights.target is None
                kept = segments[: count.value].copy() if encoder else None
                given.append(Given(ids[: count.value].copy(), kept))

        session.use(call)
        self._keep("text", session)
        return self._trimmed(given)

    def _trimmed(self, given: list[Given]) -> list[Given]:
        """A class of the last position is of the last one that is no padding, as transformers has
        it for decoders; what is behind it counts for nothing."""
        weights = self._weights
        if weights.output.output != c.OUTPUT_CLASSES or weights.output.pooling != c.POOL_LAST:
            return given
        trimmed = []
        for ids, segments, seen in given:
            count = ids.size
            while count > 1 and ids[count - 1] == weights.source.pad:
                count -= 1
            kept = segments[:count] if segments is not None else None
            trimmed.append(Given(ids[:count], kept, seen))
        return trimmed

    def _singles(self, texts: Sequence[str], prompt: str | None = None) -> list[Given]:
        """The tokens of texts, behind the file's first prompt or this one."""
        before = self._prompt(None) if prompt is None else prompt
        ids = self._all_ids([before + one for one in texts], self._side(None, c.SOURCE))
        return self._trimmed([Given(one) for one in ids])

    def _inputs(self, texts: list[str], text_pair: str | Texts | None) -> list[Given]:
        """The tokens of texts, or of each with the second text that it has."""
        if text_pair is None:
            return self._singles(texts)
        seconds, before = texts_list(text_pair), self._prompt(None)
        if len(seconds) != len(texts):
            raise Error(f"text_pair: {len(seconds)} texts, expected {len(texts)}")
        return self._pairs([(before + a, b) for a, b in zip(texts, seconds)])

    # ---- vectors

    def encode(
        self,
        texts: str | Texts,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> np.ndarray:
        """The vector of each text: (n, width) float32, or (width) for one text.

        prompt: text to put before each text. prompt_name: put the file's prompt of that name there
        instead. Default: the first prompt of the file, if it has any.

        Raises Error if the model is not an encoder, the file says no pooling or has no such prompt,
        or a text is empty or too long.
        """
        weights = self._needs("encode", c.ENCODER)
        if not weights.output.pooling:
            raise self._refused("says nothing of pooling")
        if prompt is not None and prompt_name is not None:
            raise Error("prompt and prompt_name: expected one of them, not both")
        before = self._prompt(prompt_name) if prompt is None else prompt
        given = self._singles(texts_list(texts), before)
        pooled = weights.output.output == c.OUTPUT_POOLED
        width = weights.output.width if pooled else weights.source.width
        out = np.empty((len(given), width), np.float32)
        row = ctypes.c_float * width

        def answer(session: Session, sequence: int, number: int) -> None:
            at = row.from_buffer(out, number * width * 4)
            session.run("phasor_embedding", sequence, c.POOL_MODEL, c.NORMALIZE_MODEL, at, width)

        self._answers(given, 0, answer)
        self._finite(out)
        return out[0] if isinstance(texts, str) else out

    # ---- classes

    def _classifies(self, what: str) -> Any:
        weights = self._needs(what, c.ENCODER, c.ENCODER_DECODER)
        if weights.output.output != c.OUTPUT_CLASSES:
            raise self._refused(f"{what} needs a model with classes")
        return weights

    def _classes(self, session: Session, sequence: int, ids: np.ndarray) -> np.ndarray:
        """The classes of a text: of what is pooled; behind a decoder, which reads the text behind
        its start token, those at the text's last end token."""
        weights = self._weights
        if weights.target is None:
            return self._row(session, sequence, 0)
        ends = np.flatnonzero(np.isin(ids, weights.source.end[: weights.source.end_count]))
        if not ends.size:
            raise Error(f"{weights.path}: no end token, at which the classes are read")
        start = weights.target.decoder_start
        start = weights.target.start if start == c.NONE else start
        read = np.concatenate([np.array([start], np.uint32), ids[: ends[-1]]])
        session.run("phasor_step", ctypes.byref(session.item(read, sequence, c.LOGITS_LAST)), 1)
        return self._finite(session.rows(1)[0].copy())

    @overload
    def classify(
        self,
        texts: str,
        *,
        text_pair: str | None = None,
        top_k: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        hypothesis_template: str = ...,
        multi_label: bool = False,
    ) -> list[Label]: ...
    @overload
    def classify(
        self,
        texts: Texts,
        *,
        text_pair: Texts | None = None,
        top_k: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        hypothesis_template: str = ...,
        multi_label: bool = False,
    ) -> list[list[Label]]: ...
    def classify(
        self,
        texts: str | Texts,
        *,
        text_pair: str | Texts | None = None,
        top_k: int | None = None,
        candidate_labels: Sequence[str] | None = None,
        hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
    ) -> Any:
        """The classes of a text with their scores, best first, or a list of them for each text.

        text_pair: the second text of each, for models that read two. top_k: classes to return.
        Default: all. candidate_labels: classes of your own, for a model of natural language
        inference; hypothesis_template: the sentence that is tested, with {} for the label;
        multi_label: score each label by itself.

        Raises Error if the model classifies no texts, or a text is empty or too long.
        """
        weights = self._classifies("classify")
        if weights.output.query_length:
            raise self._refused("is no classifier: its vectors are for rank")
        if not weights.output.pooling and weights.target is None:
            raise self._refused("labels tokens, not texts. TRY: classify_tokens, or tag")
        given = texts_list(texts)
        positive("top_k", top_k)
        if candidate_labels is not None:
            if text_pair is not None:
                raise Error("text_pair and candidate_labels: expected one of them, not both")
            before, labels = self._prompt(None), texts_list(candidate_labels)
            found = self._zero_shot(
                [before + one for one in given], labels, hypothesis_template, multi_label
            )
            names = labels
        else:
            inputs = self._inputs(given, text_pair)

            def answer(session: Session, sequence: int, number: int) -> np.ndarray:
                row = self._classes(session, sequence, inputs[number].ids)
                return class_scores(weights.output.scores, row)

            found, names = self._answers(inputs, 1, answer), list(self.info.classes)
        results = [
            [Label(names[place], float(scores[place])) for place in best(scores, top_k)]
            for scores in found
        ]
        return results[0] if isinstance(texts, str) else results

    def _zero_shot(
        self, texts: list[str], labels: list[str], template: str, multi_label: bool
    ) -> list[np.ndarray]:
        """A softmax of entailment over the labels; of a label alone against contradiction (Yin et
        al. 2019)."""
        if not 1 <= len(labels) <= _MOST_LABELS:
            why = f"expected 1 to {_MOST_LABELS}"
            raise Error(f"candidate_labels: {len(labels)} of them, {why}")
        if template.count("{}") != 1 or {*template.replace("{}", "")} & {*"{}"}:
            raise Error(f"hypothesis_template={template!r}: expected one {{}}, for the label")
        classes = self.info.classes
        entails = [i for i, name in enumerate(classes) if name[:6].lower() == "entail"]
        if not entails or len(classes) < 2:
            raise self._refused("has no class that begins with entail, which labels ask for")
        yes = entails[0]
        no = len(classes) - 1 if yes == 0 else 0
        pairs = self._pairs([(one, template.replace("{}", x)) for one in texts for x in labels])

        def answer(session: Session, sequence: int, number: int) -> np.ndarray:
            return self._classes(session, sequence, pairs[number].ids)[[no, yes]]

        rows = np.array(self._answers(pairs, 1, answer), np.float32)
        rows = rows.reshape(len(texts), len(labels), 2)
        if multi_label or len(labels) == 1:
            return [np.array([softmax(pair)[1] for pair in one]) for one in rows]
        return [softmax(one[:, 1]) for one in rows]

    # ---- masks

    @overload
    def fill(self, texts: str, *, top_k: int = 5) -> list[list[Filled]]: ...
    @overload
    def fill(self, texts: Texts, *, top_k: int = 5) -> list[list[list[Filled]]]: ...
    def fill(self, texts: str | Texts, *, top_k: int = 5) -> Any:
        """The most probable tokens for each mask of a text: a list for each mask, best first.

        top_k: tokens of each mask.

        Raises Error if the model is no masked language model, or a text has no mask.
        """
        weights = self._needs("fill", c.ENCODER)
        if weights.output.output != c.OUTPUT_LOGITS:
            raise self._refused("is no masked language model: it has no logits")
        if weights.source.mask == c.NONE:
            raise self._refused("has no mask token")
        positive("top_k", top_k)
        inputs = self._singles(texts_list(texts))

        def answer(session: Session, sequence: int, number: int) -> list[list[Filled]]:
            masks = np.flatnonzero(inputs[number].ids == weights.source.mask)
            if not masks.size:
                mask = self._piece(weights.source.mask, c.SOURCE)
                raise Error(f"{weights.path}: text {number}: no mask token ({mask}) in the text")
            found = []
            for place in masks:
                scores = softmax(self._row(session, sequence, int(place)))
                found.append(
                    [
                        Filled(token, self._piece(token, c.SOURCE), float(scores[token]))
                        for token in best(scores, top_k)
                    ]
                )
            return found

        results = self._answers(inputs, 1, answer)
        return results[0] if isinstance(texts, str) else results

    # ---- ranks

    def rank(self, query: str, texts: Texts, *, top_k: int | None = None) -> list[Ranked]:
        """The texts by how well they answer a query, best first; of equal scores in their order.

        top_k: texts to return. Default: all. A model with vectors for late interaction (ColBERT)
        adds up, for each vector of the query, its best product with a vector of the text.

        Raises Error if the model is no cross-encoder and no ColBERT model, or a text is too long.
        """
        weights = self._needs("rank", c.ENCODER)
        output, given = weights.output, texts_list(texts)
        positive("top_k", top_k)
        text_bytes(query)
        if output.query_length:
            found = self._late(query, given)
            order = scores = np.array(found)
        else:
            if output.output != c.OUTPUT_CLASSES or not output.pooling or output.width != 1:
                why = "does not rank: it is no classifier with one class, and has no vectors"
                raise self._refused(why)
            inputs = self._pairs([(query, one) for one in given])

            def answer(session: Session, sequence: int, number: int) -> np.ndarray:
                return self._row(session, sequence, 0)

            rows = self._answers(inputs, 1, answer)
            # The classes have the order of the scores, and have not lost their differences.
            order = np.array([float(row[0]) for row in rows])
            scores = np.array([class_scores(output.scores, row)[0] for row in rows])
        return [Ranked(i, float(scores[i]), given[i]) for i in best(order, top_k)]

    def _late(self, query: str, texts: list[str]) -> list[float]:
        """MaxSim (Khattab and Zaharia 2020, equation 3)."""
        weights = self._weights
        output, count = weights.output, ctypes.c_uint32()
        at = weights.library.phasor_skipped(weights.model, ctypes.byref(count))
        skipped = np.array(at[: count.value] if count.value else [], np.uint32)

        def marked(text: list[str], marker: int) -> list[np.ndarray]:
            ids = [one.ids for one in self._singles(text)]
            if marker == c.NONE:
                return ids
            return [np.insert(one, min(one.size, 1), marker).astype(np.uint32) for one in ids]

        def vectors(session: Session, sequence: int, ids: np.ndarray) -> np.ndarray:
            rows = self._rows(session, sequence, 0, ids.size).astype(np.float64)
            lengths = np.sqrt(added(rows * rows))
            rows /= np.maximum(lengths, 1e-12)[:, None]
            return rows

        asked = marked([query], output.query_marker)[0]
        most = min(output.query_length, weights.limits().source)
        if not 0 < asked.size <= most:
            raise Error(f"the query has {asked.size} tokens: expected 1 to {most}", c.Status.FULL)
        seen = asked.size if output.expansion == c.EXPANSION_HIDDEN else 0
        if output.expansion != c.EXPANSION_NONE:
            masks = np.full(output.query_length - asked.size, weights.source.mask, np.uint32)
            asked = np.concatenate([asked, masks])
        wanted = self._answers(
            [Given(asked, None, seen)], ROWS, lambda session, i, _: vectors(session, i, asked)
        )[0]
        inputs = [Given(one) for one in marked(texts, output.document_marker)]

        def answer(session: Session, sequence: int, number: int) -> float:
            ids = inputs[number].ids
            kept = vectors(session, sequence, ids)[~np.isin(ids, skipped)]
            if not len(kept):
                raise Error(f"{weights.path}: text {number}: no token that counts")
            products = np.stack([added(wanted * one) for one in kept])
            return float(added(products.max(axis=0)))

        return self._answers(inputs, ROWS, answer)


def positive(name: str, value: int | None) -> None:
    if value is not None and (value < 1 or value != int(value)):
        raise Error(f"{name}={value}: expected a whole number of at least 1")
