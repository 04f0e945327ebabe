"""What encoders say of tokens: their classes, what the labels name, and answers to questions."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from phasor.runtime import _interface as c
from phasor.runtime.encoders import ROWS, Encoders, positive
from phasor.runtime.library import Error, text_bytes, texts_list
from phasor.runtime.opened import Texts
from phasor.runtime.results import Answer, Entity, Label, TokenLabels
from phasor.runtime.scores import added, best, class_scores, softmax
from phasor.runtime.session import Session

_Place = tuple[int, int]  # the first character and the end of a token's text


class Spans(Encoders):
    """What a model does with the rows of tokens."""

    def _labels_tokens(self, what: str) -> Any:
        weights = self._needs(what, c.ENCODER)
        output = weights.output
        if output.output != c.OUTPUT_CLASSES or output.pooling or output.query_length:
            raise self._refused("labels no tokens: it is no classifier of them")
        return weights

    def _own_places(self, text: str, count: int) -> list[_Place]:
        """Where the `count` tokens of a text lie in it, without the spaces around them."""
        _, places = self.tokenize(text, add_special_tokens=False, side="source", offsets=True)
        if len(places) < count:
            why = "the text has tokens that are not its own, which have no place in it"
            raise Error(f"{self._weights.path}: {why}")
        trimmed = []
        for begin, end in places[:count]:
            begin = end - len(text[begin:end].lstrip(" "))
            trimmed.append((begin, begin + len(text[begin:end].rstrip(" "))))
        return trimmed

    @overload
    def classify_tokens(
        self, texts: str, *, text_pair: str | None = None, top_k: int | None = None
    ) -> list[TokenLabels]: ...
    @overload
    def classify_tokens(
        self, texts: Texts, *, text_pair: Texts | None = None, top_k: int | None = None
    ) -> list[list[TokenLabels]]: ...
    def classify_tokens(
        self, texts: str | Texts, *, text_pair: str | Texts | None = None, top_k: int | None = None
    ) -> Any:
        """The classes of each token of a text, best first, or a list of them for each text.

        text_pair: the second text of each, for models that read two. top_k: classes of each token.
        Default: all. The tokens include those that the model expects around a text.

        Raises Error if the model labels no tokens, or a text is empty or too long.
        """
        weights, names = self._labels_tokens("classify_tokens"), self.info.classes
        positive("top_k", top_k)
        inputs = self._inputs(texts_list(texts), text_pair)

        def answer(session: Session, sequence: int, number: int) -> list[TokenLabels]:
            ids, found = inputs[number].ids, []
            for token, row in zip(ids.tolist(), self._rows(session, sequence, 0, ids.size)):
                scores = class_scores(weights.output.scores, row)
                labels = tuple(Label(names[i], float(scores[i])) for i in best(scores, top_k))
                found.append(TokenLabels(token, self._piece(token, c.SOURCE), labels))
            return found

        results = self._answers(inputs, ROWS, answer)
        return results[0] if isinstance(texts, str) else results

    @overload
    def tag(self, texts: str) -> list[Entity]: ...
    @overload
    def tag(self, texts: Texts) -> list[list[Entity]]: ...
    def tag(self, texts: str | Texts) -> Any:
        """What the labels of a text's tokens name, such as persons, in its order, or a list of them
        for each text. As with aggregation_strategy="simple" of transformers, tokens of one label
        that follow each other are one entity; B- begins a new one, and O is none.

        Raises Error if the model labels no tokens, or a text is too long.
        """
        weights, names = self._labels_tokens("tag"), self.info.classes
        given = texts_list(texts)
        inputs, source = self._singles(given), weights.source
        around = source.prefix_count + source.suffix_count
        places = [self._own_places(t, one.ids.size - around) for t, one in zip(given, inputs)]

        def answer(session: Session, sequence: int, number: int) -> list[Entity]:
            rows = self._rows(session, sequence, 0, inputs[number].ids.size)
            found: list[tuple[str, _Place, list[float]]] = []  # with the score of each token
            for place, row in zip(places[number], rows[source.prefix_count :]):
                scores = class_scores(weights.output.scores, row)
                top = best(scores, 1)[0]
                name = names[top]
                plain = name[2:] if name[:2] in ("B-", "I-") else name
                if not found or found[-1][0] != plain or name[:2] == "B-":
                    found.append((plain, place, []))
                _, (begin, _), known = found[-1]
                found[-1] = plain, (begin, place[1]), [*known, float(scores[top])]
            return [
                Entity(name, float(added(np.array(known))) / len(known), given[number][a:b], a, b)
                for name, (a, b), known in found
                if name != "O"
            ]

        results = self._answers(inputs, ROWS, answer)
        return results[0] if isinstance(texts, str) else results

    @overload
    def answer(
        self,
        question: str,
        context: str,
        *,
        top_k: int = 1,
        max_answer_len: int = 15,
        handle_impossible_answer: bool = False,
    ) -> list[Answer]: ...
    @overload
    def answer(
        self,
        question: str,
        context: Texts,
        *,
        top_k: int = 1,
        max_answer_len: int = 15,
        handle_impossible_answer: bool = False,
    ) -> list[list[Answer]]: ...
    def answer(
        self,
        question: str,
        context: str | Texts,
        *,
        top_k: int = 1,
        max_answer_len: int = 15,
        handle_impossible_answer: bool = False,
    ) -> Any:
        """The stretches of a text that answer a question, best first, or a list of them for each
        text.

        top_k: answers to return. max_answer_len: longest answer, in tokens.
        handle_impossible_answer: allow "no answer" (SQuAD 2.0), an empty text from 0 to 0.

        Raises Error if the model answers no questions, or a text has no tokens or is too long.
        """
        weights = self._needs("answer", c.ENCODER)
        output = weights.output
        spans = output.output == c.OUTPUT_CLASSES and not output.pooling
        if not spans or self.info.classes != ("start", "end"):
            raise self._refused("answers no questions: it has no classes start and end")
        if self._pair_template() is not None:
            raise self._refused("reads two texts in a template, in which an answer has no place")
        positive("top_k", top_k)
        positive("max_answer_len", max_answer_len)
        text_bytes(question)
        given = texts_list(context)
        inputs = self._pairs([(question, text) for text in given])
        asked = self._ids(question, c.SOURCE, False).size
        around = self._pairs([("", "")])[0].ids.size
        places = []
        for number, (text, one) in enumerate(zip(given, inputs)):
            if one.ids.size <= asked + around:
                raise Error(f"{weights.path}: text {number}: no tokens, expected at least one")
            places.append(self._own_places(text, one.ids.size - asked - around))
        source = weights.source

        def answer(session: Session, sequence: int, number: int) -> list[Answer]:
            text, own = given[number], places[number]
            rows = self._rows(session, sequence, 0, inputs[number].ids.size)
            end = len(rows) - source.suffix_count
            none = rows[0] if source.prefix_count else np.full(2, -np.inf, np.float32)
            both = np.stack([none, *rows[end - len(own) : end]])
            starts, ends = softmax(both[:, 0]), softmax(both[:, 1])
            found = [
                Answer(text[own[i][0] : own[j][1]], score, own[i][0], own[j][1])
                for score, i, j in _spans(starts, ends, top_k, max_answer_len)
            ]
            if handle_impossible_answer:
                score = float(starts[0] * ends[0])
                place = sum(one.score >= score for one in found)
                found.insert(place, Answer("", score, 0, 0))
            return found[:top_k]

        results = self._answers(inputs, ROWS, answer)
        return results[0] if isinstance(context, str) else results


def _spans(
    start: np.ndarray, end: np.ndarray, most: int, longest: int
) -> list[tuple[float, int, int]]:
    """The scores of the `most` best spans of tokens, best first, ties to the first; and their first
    and last tokens. The first chance of all stands for "no answer"."""
    begins, ends = start[1:], end[1:]
    reach = min(longest, begins.size)
    scores = np.full((begins.size, reach), -1.0)
    for more in range(reach):
        scores[: begins.size - more, more] = begins[: begins.size - more] * ends[more:]
    found = best(scores.ravel(), most)
    return [
        (float(scores.flat[i]), i // reach, i // reach + i % reach)
        for i in found
        if scores.flat[i] >= 0
    ]
